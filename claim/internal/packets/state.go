package packets

import (
	"math/bits"
	"slices"

	"sluice/claim/internal/check"
)

const (
	numbers = 6 // packets that can be sent
	chunks  = 2 // bytes of the stream
)

// set is a set of packet numbers or of bytes.
type set uint8

func (s set) has(n uint8) bool { return s&(1<<n) != 0 }
func (s *set) add(n uint8)     { *s |= 1 << n }
func (s set) first() uint8     { return uint8(bits.TrailingZeros8(uint8(s))) }

// status is the fate of a record's packet.
type status uint8

const (
	missing status = iota
	live
	acked
	lost
)

// record is an entry of the ledger.
type record struct {
	is    status
	chunk uint8
}

// state is all that the model knows. It is a value: a step changes a copy.
type state struct {
	// Shared words.
	next, generation, writers uint8
	ledger                    [numbers]record
	cursor                    uint8 // the first byte that is not claimed
	keys                      set   // generations whose keys the forwarder has

	kernel  sender
	network network
	reader  ack
	quic    quic
	twin    knower
	media   media
	end     end
	broken  invariant
}

// invariant names the invariant that a step has broken.
type invariant uint8

const (
	kept invariant = iota
	usedTwice
	olderKey
	noKey
	noRecord
	reused
	handledTwice
	lateVerdict
)

var invariants = [...]string{
	usedTwice:    "I2: a packet number is used twice",
	olderKey:     "I2: a packet has an older key than one with a lower number",
	noKey:        "I2: a packet is sealed without its key",
	noRecord:     "I3: a packet is acknowledged that has no record",
	reused:       "I10: a run gets to another connection with the same index",
	handledTwice: "I11: an ACK is handled twice",
	lateVerdict:  "I11: a packet is considered lost that an earlier ACK acknowledges",
}

// Rules are the rules that can be broken, each with the invariant that the broken rule violates.
var Rules = map[string]string{
	"a number is taken by one addition":                                   "I2",
	"number and key generation are one word":                              "I2",
	"the forwarder gets keys before numbers ask for them":                 "I2",
	"the record is written before the packet leaves":                      "I3",
	"runs are awaited before an index is given to another":                "I10",
	"the reader opens nothing while quic-go has a packet":                 "I11",
	"the reader opens no packet that has come before":                     "I11",
	"quic-go is told what the reader has opened before it opens a packet": "I11",
	"the alarm is also for the forwarder's packets":                       "I12",
	"a packet goes up when its copies are recorded":                       "I12",
	"a probe sends again what is outstanding":                             "I12",
}

// New returns the model without one of the rules, or with all of them.
func New(without string) check.Model[state] {
	m := model{without}
	start := state{keys: 1, network: network{faults: 1}}
	return check.Model[state]{
		Start: start,
		Rules: slices.Concat(
			forwarder{m}.rules(), wire{m}.rules(), reader{m}.rules(), mediaSender{m}.rules(), closing{m}.rules(),
		),
		Wrong: func(s state) string { return invariants[s.broken] },
		Owes:  owes,
	}
}

// owes returns what must not stay so: a byte that was claimed has not arrived, as far as the media sender knows.
func owes(s state) string {
	if s.end.at == lives && s.next < numbers && uint8(bits.OnesCount8(uint8(s.media.delivered))) < s.cursor {
		return "I12: a byte that was claimed does not arrive"
	}
	return ""
}

// model has the rules but for a broken one.
type model struct{ without string }

func (m model) keeps(rule string) bool { return m.without != rule }
