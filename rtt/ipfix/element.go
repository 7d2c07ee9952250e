package ipfix

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"sluice/rtt/report"
)

// Values of RFC 5610 §3.
const (
	typeUnsigned64 = 4
	typeString     = 13

	semanticsDefault      = 0
	semanticsQuantity     = 1
	semanticsDeltaCounter = 3

	unitNone        = 0
	unitPackets     = 3
	unitNanoseconds = 8
)

// element is an enterprise-specific element. docs/rtt.md lists all: their numbers must not change, and 3 to 5 and 24
// must not be used again.
type element struct {
	id        uint16
	name      string
	semantics uint8
	unit      uint16
	text      string
	value     func(*record) uint64 // nil: the element is a text
}

// add describes the element.
func (e element) add(b []byte, enterprise uint32) []byte {
	kind, greatest := uint8(typeUnsigned64), uint64(math.MaxUint64)
	if e.value == nil {
		kind, greatest = typeString, 0
	}
	b = binary.BigEndian.AppendUint32(b, enterprise)
	b = binary.BigEndian.AppendUint16(b, e.id)
	b = append(b, kind, e.semantics)
	b = binary.BigEndian.AppendUint16(b, e.unit)
	b = binary.BigEndian.AppendUint64(b, 0) // the least value
	b = binary.BigEndian.AppendUint64(b, greatest)
	return appendText(appendText(b, e.name), e.text)
}

// Names have no numbers.
const (
	group = 1
	peer  = 2
)

// Elements that templates have together.
var (
	rtts = rttElements(6, "rtt", "of the hosts of the prefix",
		func(r *record) *report.Histogram { return &r.RTT })
	peerRTTs = rttElements(12, "peerRtt", "of the hosts that hosts of the prefix talk to",
		func(r *record) *report.Histogram { return &r.PeerRTT })
	oneDirectionRTTs = rttElements(33, "oneDirectionRtt", "of the whole path, of flows with one direction seen",
		func(r *record) *report.Histogram { return &r.OneDirection })
	quicSent = lossElements(18, "Sent", "that the prefix sent",
		func(r *record) *report.Loss { return &r.LossSent })
	quicReceived = lossElements(21, "Received", "that were sent to the prefix",
		func(r *record) *report.Loss { return &r.LossReceived })
	tcpSent = congestionElements(25, "Sent", "that the prefix sent",
		func(r *record) *report.PrefixTraffic { return &r.Sent })
	tcpReceived = congestionElements(29, "Received", "that were sent to the prefix",
		func(r *record) *report.PrefixTraffic { return &r.Received })

	elements = slices.Concat([]element{
		{group, "prefixGroup", semanticsDefault, unitNone,
			"name of the group of prefixes that the record is about", nil},
		{peer, "peerPrefixOrGroup", semanticsDefault, unitNone, "prefix or group at the other end", nil},
	}, rtts, peerRTTs, quicSent, quicReceived, tcpSent, tcpReceived, oneDirectionRTTs)
)

// rttElements are a histogram's, from a number on.
func rttElements(id uint16, name, whose string, of func(*record) *report.Histogram) []element {
	all := []element{{
		id, name + "DeltaCount", semanticsDeltaCounter, unitNone, "RTTs " + whose,
		func(r *record) uint64 { return of(r).Count },
	}}
	for n, v := range []struct {
		name, text string
		semantics  uint8
		value      func(*report.Histogram) time.Duration
	}{
		{"Minimum", "least", semanticsQuantity, func(h *report.Histogram) time.Duration { return h.Min }},
		{"Median", "median", semanticsQuantity, func(h *report.Histogram) time.Duration { return h.Quantile(0.5) }},
		{"Percentile95", "95th percentile", semanticsQuantity,
			func(h *report.Histogram) time.Duration { return h.Quantile(0.95) }},
		{"Maximum", "largest", semanticsQuantity, func(h *report.Histogram) time.Duration { return h.Max }},
		{"Sum", "sum", semanticsDeltaCounter, func(h *report.Histogram) time.Duration { return h.Sum }},
	} {
		all = append(all, element{
			id + 1 + uint16(n), name + v.name + "Nanoseconds", v.semantics, unitNanoseconds,
			v.text + " of the RTTs in " + name + "DeltaCount",
			func(r *record) uint64 { return uint64(v.value(of(r))) },
		})
	}
	return all
}

// lossElements are about the losses of QUIC in one direction, from a number on.
func lossElements(id uint16, direction, which string, of func(*record) *report.Loss) []element {
	name := "quic" + direction
	return []element{
		{id, name + "DeltaCount", semanticsDeltaCounter, unitPackets,
			"QUIC packets " + which + ", in whole blocks of 64", func(r *record) uint64 { return of(r).All }},
		{id + 1, name + "PassedDeltaCount", semanticsDeltaCounter, unitPackets,
			"packets of " + name + "DeltaCount that passed the monitor",
			func(r *record) uint64 { return of(r).Passed }},
		{id + 2, name + "ReportedDeltaCount", semanticsDeltaCounter, unitPackets,
			"losses that the senders of " + name + "DeltaCount have noticed",
			func(r *record) uint64 { return of(r).Reported }},
	}
}

// congestionElements are about one direction, from a number on: TCP segments, how many of these were sent again,
// packets that ECN may mark, and those that it has marked.
func congestionElements(id uint16, direction, which string, of func(*record) *report.PrefixTraffic) []element {
	tcp, ecn := "tcp"+direction, "ecn"+direction
	return []element{
		{id, tcp + "DeltaCount", semanticsDeltaCounter, unitPackets, "TCP segments " + which,
			func(r *record) uint64 { return of(r).TCPSegments() }},
		{id + 1, tcp + "RetransmissionDeltaCount", semanticsDeltaCounter, unitPackets,
			"segments of " + tcp + "DeltaCount that were sent again",
			func(r *record) uint64 { return of(r).Retransmissions }},
		{id + 2, ecn + "CapableDeltaCount", semanticsDeltaCounter, unitPackets,
			"packets " + which + ", and that may be marked instead of dropped",
			func(r *record) uint64 { return of(r).ECNCapable }},
		{id + 3, ecn + "MarkedDeltaCount", semanticsDeltaCounter, unitPackets,
			"packets of " + ecn + "CapableDeltaCount that were marked (CE)",
			func(r *record) uint64 { return of(r).ECNMarked }},
	}
}

// elementFields are the elements by which a record describes an element. The first two are its scope. They are all of
// those that RFC 5610 §3.9 lists: libfixbuf passes over descriptions that leave some out.
var elementFields = []field{
	{id: privateEnterpriseNumber, length: 4}, {id: informationElementID, length: 2},
	{id: informationElementType, length: 1}, {id: informationElementSem, length: 1},
	{id: informationElementUnit, length: 2}, {id: informationElementBegin, length: 8},
	{id: informationElementEnd, length: 8}, {id: informationElementName, length: variable},
	{id: informationElementText, length: variable},
}
