package streams

import (
	"fmt"

	"sluice/claim/internal/check"
)

func (m model) reclaimer() (rules []check.Rule[state]) {
	rule := func(name, code string, possible func(s state) bool, change func(s *state)) {
		rules = append(rules, check.Rule[state]{Name: name, Code: code, Fair: code != "",
			Next: func(s state) []state { return one(possible(s), s, change) }})
	}
	for i := range int8(own) {
		is := bits(1) << i
		rule(fmt.Sprintf("slot %d is released", i), "fastpath/subscriber_linux.go: release",
			func(s state) bool { return s.closing&is != 0 && m.mayRelease(&s) },
			func(s *state) {
				s.closing &^= is
				m.takeBack(s, i)
			})
		rule(fmt.Sprintf("slot %d is free", i), "fastpath/reclaim_linux.go: reclaim",
			func(s state) bool { return s.grace&is != 0 && s.awaited[i] == 0 },
			func(s *state) { s.grace &^= is; s.slots[i] = slot{} })
	}
	rule("the subgroup is forgotten", "fastpath/reclaim_linux.go: reclaim",
		func(s state) bool { return s.removing && s.removed == 0 && s.relay.at == gone },
		func(s *state) { s.removing, s.subgroup, s.begun = false, false, false })
	rule("the subscriber's connection ends", "", func(s state) bool { return !s.left }, func(s *state) { m.leave(s) })
	rule("what the forwarder opened for it is swept", "fastpath/reclaim_linux.go: sweep",
		func(s state) bool { return s.left && !s.swept && s.leaving == 0 },
		func(s *state) {
			if s.swept = true; s.downstream != none {
				m.takeBack(s, s.downstream)
			}
		})
	rule("a late opening is abandoned", "fastpath/subscriber_linux.go: abandonLate",
		func(s state) bool { return s.media.late != none && s.slots[s.media.late].phase != opening },
		func(s *state) { s.reset(s.media.late); s.media.late = none })
	return rules
}

// takeBack takes a slot off the map of streams. It waits for a grace period.
func (m model) takeBack(s *state, at int8) {
	if s.downstream == at {
		s.downstream, s.media.took = none, false
	}
	if s.grace |= 1 << at; m.keeps("a grace period ends before a slot is free") {
		s.awaited[at] = s.running()
	}
}

// leave ends the streams that user space knows, and takes their slots back. Later events of the subgroup no longer
// matters.
func (m model) leave(s *state) {
	known := s.closing
	if s.media.took {
		known |= 1 << s.downstream
	}
	if s.media.late != none {
		known |= 1 << s.media.late
	}
	s.left, s.leaving, s.closing = true, s.running(), 0
	for i := range int8(own) {
		if s.slots[i].ended = s.slots[i].phase != free; known&(1<<i) != 0 {
			m.takeBack(s, i)
		}
	}
	s.slots[own] = slot{}
	s.media = media{at: done, reset: true, slot: none, until: unlimited, late: none}
	s.relay = relay{at: gone, severed: none}
	s.sent, s.headers, s.listed = [size]origin{}, 0, false
	s.subgroup, s.begun, s.ended, s.removing, s.removed = false, false, true, false, 0
}

// mayRelease reports whether a slot may be taken off the map: no run may open A's stream once more.
func (m model) mayRelease(s *state) bool {
	switch {
	case !m.keeps("a slot is kept while the publisher's stream goes on"):
		return true
	case !m.keeps("a slot is released when no run can open its stream"):
		return !s.subgroup || s.ended
	}
	return !s.subgroup
}
