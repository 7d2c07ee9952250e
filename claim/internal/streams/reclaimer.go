package streams

import (
	"fmt"

	"sluice/claim/internal/check"
)

// reclaimer has the rules of the goroutine that frees slots, and of connections that end.
type reclaimer struct{ model }

func (m reclaimer) rules() (rules []check.Rule[state]) {
	awaitRuns := m.keeps("a slot is released when no run can open its stream")
	for i := range int8(own) {
		is := bits(1) << i
		rules = append(rules,
			check.Step(fmt.Sprintf("slot %d is released", i), "fastpath/subscriber_linux.go: release",
				func(s *state) bool { return s.closing&is != 0 && (s.awaited[i] == 0 || !awaitRuns) },
				func(s *state) {
					s.closing &^= is
					m.takeBack(s, i)
				}),
			check.Step(fmt.Sprintf("slot %d is free", i), "fastpath/reclaim_linux.go: reclaim",
				func(s *state) bool { return s.grace&is != 0 && s.awaited[i] == 0 },
				func(s *state) { s.grace &^= is; s.slots[i] = slot{} }))
	}
	for p := range publishers {
		rules = append(rules, check.Step("a subgroup is forgotten", "fastpath/reclaim_linux.go: reclaim",
			func(s *state) bool { f := &s.feeds[p]; return f.removing && f.removed == 0 && f.at == gone },
			func(s *state) { f := &s.feeds[p]; f.removing, f.subgroup = false, false }))
	}
	return append(rules,
		check.Step("the subscriber's connection ends", "",
			func(s *state) bool { return m.world == Opening && s.conn == there }, m.leave),
		check.Step("B's connection ends", "",
			func(s *state) bool { return s.relay.going == withB && s.feeds[b].conn == there },
			func(s *state) { s.feeds[b].conn, s.feeds[b].leaving = left, s.running() }),
		check.Step("the streams of B are swept", "fastpath/reclaim_linux.go: sweep",
			func(s *state) bool { return s.feeds[b].conn == left && s.feeds[b].leaving == 0 }, m.sweep),
		check.Step("what the forwarder opened for it is swept", "fastpath/reclaim_linux.go: sweep",
			func(s *state) bool { return s.conn == left && s.leaving == 0 },
			func(s *state) {
				if s.conn = swept; s.feeds[a].downstream != none {
					m.takeBack(s, s.feeds[a].downstream)
				}
			}),
		check.Step("a late opening is abandoned", "fastpath/subscriber_linux.go: abandonLate",
			func(s *state) bool { return s.media.late != none && s.slots[s.media.late].phase != opening },
			func(s *state) { s.reset(s.media.late); s.media.late = none }))
}

// takeBack takes a slot off the map of streams. It waits for a grace period.
func (m reclaimer) takeBack(s *state, at int8) {
	if p := s.slotFeed(at); p >= 0 {
		s.feeds[p].downstream, s.feeds[p].took = none, false
	}
	if s.grace |= 1 << at; m.keeps("a grace period ends before a slot is free") {
		s.awaited[at] = s.runsThat(func(r *run) bool { return r.at >= claims && r.slot == at })
	}
}

// leave ends the streams that user space knows, and takes their slots back. Later events of the subgroup no longer
// matter.
func (m reclaimer) leave(s *state) {
	known := s.closing
	if s.feeds[a].took {
		known |= 1 << s.feeds[a].downstream
	}
	if s.media.late != none {
		known |= 1 << s.media.late
	}
	s.conn, s.leaving, s.closing = left, s.running(), 0
	for i := range int8(own) {
		if s.slots[i].ended = s.slots[i].phase != free; known&(1<<i) != 0 {
			m.takeBack(s, i)
		}
	}
	s.slots[own] = slot{}
	clean := m.start()
	s.media, s.relay = clean.media, clean.relay
	s.media.at, s.media.reset = done, true
	s.sent, s.headers, s.listed = [size]origin{}, 0, false
	s.feeds[a] = feed{at: gone, downstream: s.feeds[a].downstream, ended: true}
}

// sweep removes what the maps have of B. The media sender keeps the slots that it has.
func (m reclaimer) sweep(s *state) {
	f := &s.feeds[b]
	if f.downstream != none && !f.took {
		s.reset(f.downstream)
	}
	if m.keeps("a stream is hidden when its publisher has left") {
		f.downstream, f.took = none, false
	}
	f.conn, f.subgroup, f.removing = swept, false, false
}
