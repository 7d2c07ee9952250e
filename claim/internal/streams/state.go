package streams

import (
	"slices"

	"sluice/claim/internal/check"
)

const (
	size = 3 // bytes of the subgroup
	cpus = 2
	none = -1
	own  = 2 // in place of a slot: the media sender's own memory

	unlimited = size + 1
)

// origin is the source of a byte, or of a log's bytes from an offset on. Later ones go on with the log later.
type origin uint8

const (
	nobody origin = iota
	fromA
	anew // written by user space, in place of the first object that another publisher brings
	fromB
	fromC
)

// Publishers whose streams the forwarder sees, and how many there are.
const (
	a = iota
	b
	publishers
)

// ofPublisher returns the origin that the stream of a publisher is.
func ofPublisher(p int8) origin { return [...]origin{a: fromA, b: fromB}[p] }

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
	next  int8 // the publisher's offset
	delta int8 // log offset minus publisher's offset
	ended bool // ClosedBit: nothing more is claimed
	hasID bool
}

// cursor returns the log offset of the first byte that is not claimed.
func (st *slot) cursor() int8 { return st.next + st.delta }

// state is all that the model knows. It is a value: a step changes a copy.
type state struct {
	runs  [cpus]run
	slots [3]slot // two are shared

	feeds          [publishers]feed
	shift          int8 // offset in B's stream minus log offset, of the same byte
	listed         bool // the track's list names A
	relay          relay
	media          media
	closing, grace bits       // slots that wait to be taken off the map, and then for a grace period
	awaited        [own]bits  // runs that a slot waits for: a grace period awaits others, too
	conn           connection // of the subscriber
	leaving        bits       // runs that its grace period awaits

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
	misplaced
	ofAnother
	early
	reused
)

var invariants = [...]string{
	claimedTwice: "I1: a byte is claimed twice",
	misplaced:    "I7: a byte is claimed at the offset of another one",
	ofAnother:    "I9: a byte is claimed that is not of the source that the stream goes on with",
	early:        "I9: a byte is claimed that comes before the bytes that the log has of its source",
	reused:       "I10: a run uses a slot that may be another stream's",
}

// running returns the runs that have begun.
func (s *state) running() bits { return s.runsThat(func(r *run) bool { return r.at != idle }) }

func (s *state) runsThat(are func(r *run) bool) (b bits) {
	for i := range s.runs {
		if are(&s.runs[i]) {
			b |= 1 << i
		}
	}
	return b
}

// take claims the byte at the cursor of a slot.
func (s *state) take(at int8, of origin) {
	st := &s.slots[at]
	offset := st.cursor()
	if s.sent[offset] != nobody {
		s.broken = claimedTwice
	}
	s.sent[offset] = of
	st.next++
}

// slotFeed returns the publisher for whose stream a slot is in the map of streams, or -1.
func (s *state) slotFeed(at int8) int {
	return slices.IndexFunc(s.feeds[:], func(f feed) bool { return f.downstream == at })
}

// World is a part of what may happen, for a check of its own: all of it at once would have too many states.
type World uint8

// Worlds.
const (
	Opening   World = iota // A's stream comes, the subscriber may leave, and the forwarder does not see B's stream
	Switching              // the subscriber has A's stream, the forwarder sees B's, too, and B may leave
)

// Rules are the rules that can be broken, by a world where that matters, each with the invariant that the broken rule
// violates.
var Rules = map[World]map[string]string{
	Opening: {
		"a claim is a compare-and-swap":                          "I1",
		"the cursor moves before the log goes on":                "I12",
		"a cursor ahead of the cut stops there":                  "I7",
		"the end of the log is read before the place of the cut": "I9",
		"whoever publishes the slot first opens the stream":      "I8",
		"an opening that takes too long stays the forwarder's":   "I8",
		"the run that registers the subgroup opens the stream":   "I8",
		"only the source that the list names is forwarded":       "I9",
		"a grace period ends before a slot is free":              "I10",
		"what nobody has adopted is abandoned":                   "I12",
		"the end is noted before streams are abandoned":          "I12",
		"streams are abandoned when no run can open one":         "I12",
		"a late opening is abandoned when it has ended":          "I12",
		"a slot is released when no run can open its stream":     "I8",
		"a stream that has ended is not forwarded":               "I8",
	},
	Switching: {
		"the cursor moves before the log goes on":                       "I9",
		"a cursor ahead of the cut stops there":                         "I7",
		"only the source that the list names is forwarded":              "I9",
		"a cursor is closed where it leaves":                            "I7",
		"a run finds streams of its own publisher":                      "I9",
		"a slot is opening until the cursor has moved there":            "I7",
		"the origin is stored behind its first object":                  "I7",
		"the delta comes with the origin":                               "I7",
		"the forwarder goes on when the cursor has reached the origin":  "I9",
		"the forwarder gets a stream only while its origin lasts":       "I7",
		"the forwarder goes on with a stream while user space reads it": "I12",
		"what another publisher has brought is not opened":              "I8",
		"a stream is hidden when its publisher has left":                "I10",
		"a stream is hidden that is opened after that":                  "I10",
	},
}

// New returns the model of a world without one of the rules, or with all of them.
func (w World) New(without string) check.Model[state] {
	m := model{w, without}
	return check.Model[state]{
		Start: m.start(),
		Rules: slices.Concat(forwarder{m}.rules(), reader{m}.rules(), sender{m}.rules(), reclaimer{m}.rules()),
		Wrong: wrong, Owes: owes,
	}
}

// model has the rules but for a broken one.
type model struct {
	world   World
	without string
}

func (m model) keeps(rule string) bool { return m.without != rule }

func (m model) start() (s state) {
	s = state{listed: true, feeds: [publishers]feed{a: {downstream: none}, b: {downstream: none, at: gone}}}
	s.media = media{slot: none, until: unlimited, late: none, spare: none, origin: fromA}
	s.relay = relay{severed: [publishers]int8{none, none}, from: none, origin: fromA}
	if m.world == Switching {
		s.feeds[a] = feed{at: reads, came: 1, subgroup: true, took: true}
		s.feeds[b].at = waits
		s.slots[0] = slot{phase: open, next: 1, hasID: true}
		s.media.at, s.media.slot, s.media.header = serves, 0, true
		s.relay.end, s.relay.held[0] = 1, fromA
		s.sent[0], s.headers = fromA, 1
	}
	return s
}
