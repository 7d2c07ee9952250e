package streams

import "sluice/claim/internal/check"

// logState is the state of a log, see package track.
type logState uint8

const (
	logOpen logState = iota
	logCut
	logFinished
	logReset
)

// reading is where user space is with A's stream.
type reading uint8

const (
	waits reading = iota // for the first frame
	reads
	stops    // the stream has ended, or broken off
	abandons // slots that nobody has adopted
	opened   // has found a stream that is still being opened
	gone
)

// relay is user space's knowledge of the subgroup.
type relay struct {
	at      reading
	came    int8 // frames of A's that have gone up
	end     int8 // of the log
	log     logState
	severed int8 // the log offset where A's stream broke off
	slot    int8 // that it abandons
}

// holds returns the origin of the log's byte at an offset.
func (s *state) holds(offset int8) origin {
	switch {
	case offset >= s.relay.end:
		return nobody
	case s.relay.severed != none && offset >= s.relay.severed:
		return fromB
	}
	return fromA
}

func (m model) relay() []check.Rule[state] {
	rule := func(name, code string, possible func(s state) bool, change func(s *state)) check.Rule[state] {
		return check.Rule[state]{Name: name, Code: code, Fair: code != "",
			Next: func(s state) []state { return one(possible(s), s, change) }}
	}
	noted := func(s *state) { s.ended, s.removing, s.removed = true, true, s.running() }
	noteFirst := m.keeps("the end is noted before streams are abandoned")
	awaitRuns := m.keeps("streams are abandoned when no run can open one")
	abandon := m.keeps("what nobody has adopted is abandoned")
	return []check.Rule[state]{
		rule("user space receives the stream", "fastpath/track_linux.go: register",
			func(s state) bool { return s.relay.at == waits && s.relay.came > 0 },
			func(s *state) {
				if s.relay.at = reads; !s.subgroup {
					s.subgroup, s.begun = true, true
				}
			}),
		rule("user space appends a byte of A", "track/log.go: Append",
			func(s state) bool { return s.relay.at == reads && s.relay.end < s.relay.came },
			func(s *state) { s.relay.end++ }),
		rule("A's stream has been read", "track/log.go: Finish",
			func(s state) bool { return s.relay.at == reads && s.relay.end == size },
			func(s *state) { s.relay.log, s.relay.at = logFinished, stops }),
		rule("A's stream breaks off", "",
			func(s state) bool { return s.relay.at == reads && s.relay.end < size },
			func(s *state) { s.relay.log, s.relay.severed, s.relay.at = logCut, s.relay.end, stops }),
		rule("the list names another source, or none", "",
			func(s state) bool { return s.listed && s.relay.at > reads }, func(s *state) { s.listed = false }),
		{Name: "B's stream goes on with the log, up to its end", Next: func(s state) (next []state) {
			for end := s.relay.end; end <= size && s.relay.log == logCut; end++ {
				n := s
				n.relay.log, n.relay.end = logFinished, end
				next = append(next, n)
			}
			return next
		}},
		rule("no other stream goes on", "track/cache.go: giveUpCuts",
			func(s state) bool { return s.relay.log == logCut },
			func(s *state) { s.relay.log = logReset }),
		rule("user space notes the end", "fastpath/publisher_linux.go: end",
			func(s state) bool { return s.relay.at == stops },
			func(s *state) {
				if s.relay.at = abandons; noteFirst {
					noted(s)
				}
			}),
		rule("user space looks for a stream that nobody has adopted", "fastpath/fastpath_linux.go: abandonUnadopted",
			func(s state) bool { return s.relay.at == abandons && (s.removed == 0 || !awaitRuns) },
			func(s *state) {
				if s.relay.at = gone; s.downstream != none && !s.media.took && !s.left && abandon {
					s.relay.at, s.relay.slot, s.media.took = opened, s.downstream, true
				}
				if !noteFirst {
					noted(s)
				}
			}),
		rule("user space abandons it", "media/forwarder.go: abandon",
			func(s state) bool { return s.relay.at == opened && s.slots[s.relay.slot].phase != opening },
			func(s *state) { s.relay.at = gone; s.reset(s.relay.slot) }),
		rule("an opening takes too long, which is to be abandoned", "",
			func(s state) bool { return s.relay.at == opened && s.slots[s.relay.slot].phase == opening },
			func(s *state) { s.relay.at, s.media.late = gone, s.relay.slot }),
	}
}

// reset resets a stream whose id was taken, and gives its slot back. The peer's acknowledgment of that, which package
// packets is about, is not a step of its own.
func (s *state) reset(at int8) {
	s.slots[at].phase, s.slots[at].ended, s.slots[at].hasID = closed, true, false
	if at != own {
		s.closing |= 1 << at
	}
}
