package streams

import "sluice/claim/internal/check"

const (
	size = 3 // bytes of the subgroup
	cpus = 2
	none = -1
	own  = 2 // in place of a slot: the media sender's own memory

	unlimited = size + 1
)

// origin is the source of a byte.
type origin uint8

const (
	nobody origin = iota
	fromA
	fromB
)

// phase is the phase of a stream, see package claim.
type phase uint8

const (
	free phase = iota // the slot is on the list of free ones
	opening
	open
	closed
	abandoned
)

// slot is a stream's state in shared memory, or the media sender's own.
type slot struct {
	phase phase
	next  int8
	ended bool // ClosedBit: nothing more is claimed
	hasID bool
}

// state is all that the model knows. It is a value: a step changes a copy.
type state struct {
	runs  [cpus]run
	slots [3]slot // two are shared

	downstream      int8 // the map downstreams: the slot of A's stream for the subscriber
	subgroup, begun bool // the map subgroups: A's stream
	ended           bool // the map of ended streams
	listed          bool // the track's list says that A's stream is to be forwarded
	relay           relay
	media           media
	closing, grace  bits      // slots that wait to be taken off the map, and then for a grace period
	awaited         [own]bits // runs that the grace period of a slot awaits
	removing        bool      // the subgroup waits for a grace period
	removed         bits      // runs that this awaits
	left, swept     bool      // the subscriber's connection has ended, and what the forwarder opened for it was freed
	leaving         bits      // runs that this awaits

	// Past events, for the invariants.
	sent    [size]origin // bytes that were claimed on streams for the subgroup
	headers int8         // times that the header was sent
	broken  invariant
}

type bits uint8

// invariant names the invariant that a step has broken.
type invariant uint8

const (
	kept invariant = iota
	claimedTwice
	ofAnother
	reused
)

var invariants = [...]string{
	claimedTwice: "I1: a byte is claimed twice",
	ofAnother:    "I9: a byte is claimed that is not of the source that the stream goes on with",
	reused:       "I10: a run uses a slot that may be another stream's",
}

// running returns the runs that have begun.
func (s *state) running() (b bits) {
	for i := range s.runs {
		if s.runs[i].at != idle {
			b |= 1 << i
		}
	}
	return b
}

// take claims the byte at the cursor of a slot.
func (s *state) take(at int8, of origin) {
	st := &s.slots[at]
	if s.sent[st.next] != nobody {
		s.broken = claimedTwice
	}
	s.sent[st.next] = of
	st.next++
}

// Rules are the rules that can be broken, each with the invariant that the broken rule violates.
var Rules = map[string]string{
	"a claim is a compare-and-swap":                          "I1",
	"the cursor moves before the log goes on":                "I12",
	"a cursor ahead of the cut stops there":                  "I7",
	"the end of the log is read before the place of the cut": "I9",
	"whoever publishes the slot first opens the stream":      "I8",
	"an opening that takes too long stays the forwarder's":   "I8",
	"a slot is kept while the publisher's stream goes on":    "I8",
	"only the source that the list names is forwarded":       "I9",
	"a grace period ends before a slot is free":              "I10",
	"what nobody has adopted is abandoned":                   "I12",
	"the end is noted before streams are abandoned":          "I12",
	"streams are abandoned when no run can open one":         "I12",
	"a late opening is abandoned when it has ended":          "I12",
	"a slot is released when no run can open its stream":     "I8",
}

// New returns the model without one of the rules, or with all of them.
func New(without string) check.Model[state] {
	m := model{without}
	start := state{downstream: none, listed: true}
	start.media.slot, start.media.until, start.media.late = none, unlimited, none
	start.relay.severed = none
	return check.Model[state]{
		Start: start,
		Rules: append(append(append(m.kernel(), m.relay()...), m.media()...), m.reclaimer()...),
		Wrong: wrong, Owes: owes,
	}
}

// model has the rules but for a broken one.
type model struct{ without string }

func (m model) keeps(rule string) bool { return m.without != rule }

// one is the result of a rule that leads to one state, or is not possible.
func one(possible bool, s state, change func(*state)) []state {
	if !possible {
		return nil
	}
	change(&s)
	return []state{s}
}
