package streams

import (
	"fmt"
	"slices"

	"sluice/claim/internal/check"
)

// place is where a run of the program is.
type place uint8

const (
	idle  place = iota
	finds       // its subgroup, and the list of subscribers
	asks        // the map downstreams
	opens       // publishes a slot
	claims
	settles // the phase, after it has opened the stream
)

// run is one run of the program, for a frame of a publisher's stream.
type run struct {
	at     place
	of     int8 // publisher
	frame  int8
	first  bool // the stream may be opened
	stale  bool // the list named another source
	opened bool // by this run
	failed bool // the run has opened the stream, and then could not claim the first bytes
	slot   int8
}

// forwarder has the rules of the runs.
type forwarder struct{ model }

func (m forwarder) rules() (rules []check.Rule[state]) {
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
func (m forwarder) lookRules(i int) []check.Rule[state] {
	anyStream := !m.keeps("a run finds streams of its own publisher")
	return []check.Rule[state]{
		ruleOf(i, "begins with a frame", "", idle, func(s state, _ run) (next []state) {
			for f := range int8(size) {
				of, ok := m.arrives(&s, i, f)
				if !ok {
					continue
				}
				n := s
				n.runs[i] = run{at: finds, of: of, frame: f}
				if m.world == Opening {
					next = append(next, n)
				} else {
					next = append(next, m.find(n, i)...)
				}
			}
			return next
		}),
		ruleOf(i, "finds or registers the subgroup", "fastpath/bpf/application/subgroup.h: find_subgroup", finds,
			func(s state, _ run) []state { return m.find(s, i) }),
		stepOf(i, "asks for the stream", "fastpath/bpf/fanout/stream.h: find_stream", asks, func(s *state, r *run) {
			if r.slot = s.feeds[r.of].downstream; r.slot == none && anyStream {
				r.slot = s.feeds[1-r.of].downstream
			}
			switch {
			case s.conn != there: // there is no path
				r.goOn(s, idle, false)
			case r.slot == none:
				r.goOn(s, opens, r.first)
			default:
				r.goOn(s, claims, s.slots[r.slot].phase == open)
			}
		}),
	}
}

// find finds or registers the subgroup of a run's frame. Then the run sees whether the list names its publisher: in the
// world of [Switching] it may or may not. The forwarder does not open B's stream, as another publisher has brought the
// group.
func (m forwarder) find(s state, cpu int) (next []state) {
	r := &s.runs[cpu]
	f := &s.feeds[r.of]
	registers := !f.subgroup || !m.keeps("the run that registers the subgroup opens the stream")
	brought := r.of == b && m.keeps("what another publisher has brought is not opened")
	r.first = r.frame == 0 && registers && !brought
	f.subgroup = f.subgroup || r.frame == 0
	anySource := !m.keeps("only the source that the list names is forwarded")
	for _, stale := range []bool{false, true} {
		if m.world == Switching || stale != s.listed {
			n := s
			n.runs[cpu].stale = stale
			n.runs[cpu].goOn(&n, asks, f.subgroup && (!stale || anySource))
			next = append(next, n)
		}
	}
	return next
}

// claimRules open the stream if that is due, and claim.
func (m forwarder) claimRules(i int) []check.Rule[state] {
	const stream = "fastpath/bpf/fanout/stream.h: "
	firstWins := m.keeps("whoever publishes the slot first opens the stream")
	return []check.Rule[state]{
		stepOf(i, "publishes a slot", stream+"open_stream", opens, func(s *state, r *run) {
			at := s.freeSlot()
			f := &s.feeds[r.of]
			r.goOn(s, claims, at != none && (f.downstream == none || !firstWins))
			if r.at == claims {
				s.slots[at] = slot{phase: opening, next: s.offset(r), delta: -s.offset(r)}
				f.downstream, r.slot, r.opened = at, at, true
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

// arrives reports whether a frame may come to a processor, and whose it is. In the world of [Opening], one processor
// gets A's frames in order, and the other one gets the first frame again. In the world of [Switching], each has a
// publisher, and each of B's frames may come again.
func (m forwarder) arrives(s *state, cpu int, frame int8) (of int8, ok bool) {
	if m.world == Switching {
		of = int8(cpu)
	}
	f := &s.feeds[of]
	switch {
	case f.at == gone, f.conn != there, f.ended && m.keeps("a stream that has ended is not forwarded"):
		return of, false
	case of == b:
		return of, frame == f.came || frame == f.came-1
	case cpu == 0:
		return of, frame == f.came
	}
	return of, frame == 0 && (f.came > 0 || s.runs[0].at != idle)
}

// offset returns where a run's frame begins in the publisher's stream.
func (s *state) offset(r *run) int8 { return r.frame + r.of*s.shift }

// goOn goes on, or ends the run: then the packet goes up to user space.
func (r *run) goOn(s *state, to place, on bool) {
	frame, f := r.frame, &s.feeds[r.of]
	if r.at = to; !on {
		*r = run{}
		if f.at < opened {
			f.came = max(f.came, frame+1)
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
	for i := range s.feeds {
		s.feeds[i].removed &= running
		s.feeds[i].leaving &= running
	}
	s.leaving &= running
}

// claim claims the run's byte, if it comes next. When the connection has ended, there are no packet numbers; but the
// run may have taken one before, and go on to the cursor.
func (m forwarder) claim(s *state, r *run) {
	st := &s.slots[r.slot]
	if st.phase == free {
		s.broken = reused
		return
	}
	if s.conn != there || st.ended || st.next != s.offset(r) && m.keeps("a claim is a compare-and-swap") {
		r.claimed(s, false)
		return
	}
	st.next = s.offset(r)
	switch {
	case st.cursor() != r.frame:
		s.broken = misplaced
		return
	case r.stale || s.goesOnAfter(ofPublisher(r.of)):
		s.broken = ofAnother
	case r.of == b && (s.relay.from == none || r.frame < s.relay.from):
		s.broken = early
	}
	if r.opened {
		s.headers++
	}
	s.take(r.slot, ofPublisher(r.of))
	st.ended = r.frame == size-1 // FIN
	r.claimed(s, true)
}

// goesOnAfter reports whether bytes of an origin behind o were claimed.
func (s *state) goesOnAfter(o origin) bool {
	return slices.ContainsFunc(s.sent[:], func(sent origin) bool { return sent > o })
}

// claimed goes on after a claim.
func (r *run) claimed(s *state, ok bool) {
	r.failed = !ok
	r.goOn(s, settles, r.opened)
}

// freeSlot returns a slot from the list of free ones.
func (s *state) freeSlot() int8 {
	for i := int8(own - 1); i > none; i-- {
		if s.slots[i].phase == free {
			return i
		}
	}
	return none
}
