package packets

import "sluice/claim/internal/check"

// end is how far the connection has ended.
type end struct {
	at           ending
	awaitsKernel bool
}

type ending uint8

const (
	lives  ending = iota
	ended         // its state has left the shared memory
	unused        // no run uses it
	given         // another connection has its index
)

// closing has the rules of the end of the connection, and of its index.
type closing struct{ model }

func (m closing) rules() []check.Rule[state] {
	return []check.Rule[state]{
		check.Step("the connection ends", "", func(s *state) bool { return s.end.at == lives }, m.leave),
		check.Step("runs have ended", "fastpath/workers_linux.go: awaitUnused",
			func(s *state) bool { return s.end.at == ended && !s.end.awaitsKernel },
			func(s *state) { s.end.at = unused }),
		check.Step("the reclaimer gives the index to another connection", "fastpath/reclaim_linux.go: reclaim",
			func(s *state) bool { return s.end.at == unused },
			func(s *state) { s.end.at = given }),
	}
}

// leave ends the connection. Its past no longer matters, but for the run.
func (m closing) leave(s *state) {
	*s = state{kernel: s.kernel, next: min(s.next, numbers-1), writers: s.writers}
	s.end.at = ended
	s.end.awaitsKernel = s.kernel.at != idle && m.keeps("runs are awaited before an index is given to another")
}
