package packets

import "sluice/claim/internal/check"

// end is how far the connection has ended.
type end struct {
	at                          ending
	awaitsKernel, awaitsIngress bool
}

type ending uint8

const (
	lives  ending = iota
	ended         // its state has left the shared memory
	unused        // no run uses it
	given         // another connection has its index
)

func (m model) end() []check.Rule[state] {
	emptied := m.keeps("the queue is emptied before an index is given to another")
	return []check.Rule[state]{
		rule("the connection ends", "", func(s *state) bool { return s.end.at == lives }, m.leave),
		rule("runs have ended", "fastpath/workers_linux.go: awaitUnused",
			func(s *state) bool { return s.end.at == ended && !s.end.awaitsKernel && !s.end.awaitsIngress },
			func(s *state) { s.end.at = unused }),
		rule("the reclaimer empties the queue, and gives the index to another connection",
			"fastpath/reclaim_linux.go: reclaim",
			func(s *state) bool { return s.end.at == unused && m.mayHandOver(s, reclaimerEmpties) },
			func(s *state) {
				if !emptied || m.handOver(s, reclaimerEmpties) {
					s.end.at = given
				}
			}),
		rule("another connection has its packets handed over", "fastpath/queue_linux.go: HandOver",
			func(s *state) bool { return s.end.at == given && s.queue.len > 0 && m.mayHandOver(s, turnEmpties) },
			func(s *state) { m.handOver(s, turnEmpties) }),
	}
}

// leave ends the connection. What has happened on it no longer matters, but for the runs and for the queue.
func (m model) leave(s *state) {
	lock := s.queue.lock
	*s = state{kernel: s.kernel, ingress: s.ingress, queue: s.queue, next: min(s.next, numbers-1), writers: s.writers}
	if lock != nobody { // who has it goes on, and finds no connection
		s.queue.lock = nobody
		if s.queue.handled {
			s.queue.pop()
		}
		s.queue.handled = false
	}
	s.end.at = ended
	if m.keeps("runs are awaited before an index is given to another") {
		s.end.awaitsKernel, s.end.awaitsIngress = s.kernel.at != idle, s.ingress.at != idle
	}
}
