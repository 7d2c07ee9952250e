package streams

import (
	"fmt"

	"sluice/claim/internal/check"
)

// place is where a run of the program is.
type place uint8

const (
	idle   place = iota
	looks        // whether the stream has ended
	finds        // its subgroup, and the list of subscribers
	begins       // first is known
	asks         // the map downstreams
	opens        // publishes a slot
	claims
	settles // the phase, after it has opened the stream
)

// run is one run of the program, for a frame of A's stream.
type run struct {
	at     place
	frame  int8
	first  bool // the stream may be opened
	stale  bool // the list named another source
	opened bool // by this run
	failed bool // the run has opened the stream, and then could not claim the first bytes
	slot   int8
}

func (m model) kernel() (rules []check.Rule[state]) {
	for i := range cpus {
		rules = append(rules, m.lookRules(i)...)
		rules = append(rules, m.claimRules(i)...)
	}
	return rules
}

// ruleOf is a rule that a run follows at a place.
func ruleOf(i int, name, code string, from place, next func(s state, r run) []state) check.Rule[state] {
	return check.Rule[state]{
		Name: fmt.Sprintf("run %d %s", i, name), Code: code, Fair: code != "",
		Next: func(s state) []state {
			if s.runs[i].at != from {
				return nil
			}
			return next(s, s.runs[i])
		},
	}
}

// stepOf is such a rule that leads to one state.
func stepOf(i int, name, code string, from place, change func(s *state, r *run)) check.Rule[state] {
	return ruleOf(i, name, code, from, func(s state, _ run) []state {
		change(&s, &s.runs[i])
		return []state{s}
	})
}

// lookRules lead up to the place where a run knows whether it has to open the stream.
func (m model) lookRules(i int) []check.Rule[state] {
	const subgroup, stream = "fastpath/bpf/application/subgroup.h: ", "fastpath/bpf/fanout/stream.h: "
	anySource := !m.keeps("only the source that the list names is forwarded")
	return []check.Rule[state]{
		ruleOf(i, "begins with a frame", "", idle, func(s state, _ run) (next []state) {
			for f := range int8(size) {
				if n := s; s.arrives(i, f) {
					n.runs[i] = run{at: looks, frame: f}
					next = append(next, n)
				}
			}
			return next
		}),
		stepOf(i, "looks whether the stream has ended", subgroup+"find_subgroup", looks,
			func(s *state, r *run) { r.goOn(s, finds, !s.ended) }),
		stepOf(i, "finds or registers the subgroup", subgroup+"find_subgroup", finds, func(s *state, r *run) {
			if !s.subgroup && r.frame == 0 {
				s.subgroup, s.begun = true, false
			}
			r.first, r.stale = r.frame == 0 && !s.begun, !s.listed
			r.goOn(s, asks, s.subgroup && (s.listed || anySource))
		}),
		stepOf(i, "asks for the stream", stream+"find_stream", asks, func(s *state, r *run) {
			s.begun = s.begun || r.first
			switch r.slot = s.downstream; {
			case s.left: // there is no path
				r.goOn(s, idle, false)
			case r.slot == none:
				r.goOn(s, opens, r.first)
			default:
				r.goOn(s, claims, s.slots[r.slot].phase == open)
			}
		}),
	}
}

// claimRules open the stream if that is due, and claim.
func (m model) claimRules(i int) []check.Rule[state] {
	const stream = "fastpath/bpf/fanout/stream.h: "
	firstWins := m.keeps("whoever publishes the slot first opens the stream")
	return []check.Rule[state]{
		stepOf(i, "publishes a slot", stream+"open_stream", opens, func(s *state, r *run) {
			at := s.freeSlot()
			r.goOn(s, claims, at != none && (s.downstream == none || !firstWins))
			if r.at == claims {
				s.slots[at] = slot{phase: opening}
				s.downstream, r.slot, r.opened = at, at, true
			}
		}),
		ruleOf(i, "claims", "fastpath/bpf/shared/claim.h: claim_bytes", claims, func(s state, r run) []state {
			yes, no := s, s
			no.runs[i].claimed(&no, false) // the policy, or credit
			m.claim(&yes, &yes.runs[i])
			if !r.opened {
				return []state{yes, no}
			}
			yes.slots[r.slot].hasID, no.slots[r.slot].hasID = true, true
			limited := s
			limited.slots[r.slot].phase = abandoned // the peer allows no more streams
			limited.runs[i].goOn(&limited, idle, false)
			return []state{yes, no, limited}
		}),
		stepOf(i, "sets the phase", stream+"copy_stream", settles, func(s *state, r *run) {
			if s.slots[r.slot].phase = open; r.failed {
				s.slots[r.slot].phase = abandoned
			}
			r.goOn(s, idle, false)
		}),
	}
}

// arrives reports whether a frame may come to a processor. The first one gets the frames in order, and the second one
// gets the first frame again.
func (s *state) arrives(cpu int, frame int8) bool {
	switch {
	case s.relay.at == gone:
		return false
	case cpu == 0:
		return frame == s.relay.came
	}
	return frame == 0 && (s.relay.came > 0 || s.runs[0].at != idle)
}

// goOn goes on, or ends the run: then the packet goes up to user space.
func (r *run) goOn(s *state, to place, on bool) {
	frame := r.frame
	if r.at = to; !on {
		*r = run{}
		if !s.left {
			s.relay.came = max(s.relay.came, frame+1)
		}
		s.ranToEnd()
	}
}

// ranToEnd takes runs that have ended off those that grace periods await.
func (s *state) ranToEnd() {
	running := s.running()
	for i := range s.awaited {
		s.awaited[i] &= running
	}
	s.removed &= running
	s.leaving &= running
}

// claim claims the run's byte, if it comes next. When the connection has ended, there are no packet numbers; but the
// run may have taken one before, and go on to the cursor.
func (m model) claim(s *state, r *run) {
	st := &s.slots[r.slot]
	if st.phase == free {
		s.broken = reused
		return
	}
	if s.left || st.ended || st.next != r.frame && m.keeps("a claim is a compare-and-swap") {
		r.claimed(s, false)
		return
	}
	st.next = r.frame
	if r.stale || s.usedB() {
		s.broken = ofAnother
	}
	if r.opened {
		s.headers++
	}
	s.take(r.slot, fromA)
	st.ended = r.frame == size-1 // FIN
	r.claimed(s, true)
}

func (s *state) usedB() bool {
	for _, o := range s.sent {
		if o == fromB {
			return true
		}
	}
	return false
}

// claimed goes on after a claim.
func (r *run) claimed(s *state, ok bool) {
	r.failed = !ok
	r.goOn(s, settles, r.opened)
}

// freeSlot returns a slot from the list of free ones.
func (s *state) freeSlot() int8 {
	for i := range int8(own) {
		if s.slots[i].phase == free {
			return i
		}
	}
	return none
}
