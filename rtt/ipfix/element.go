package ipfix

import (
	"encoding/binary"
	"math"
)

// The enterprise-specific elements. docs/rtt.md lists them: their numbers must not change.
const (
	group = iota + 1
	peer
	_ // 3 to 5, and 24, were of both directions together
	_
	_
	rttCount
	rttMin
	rttMedian
	rttP95
	rttMax
	rttSum
	peerRTTCount
	peerRTTMin
	peerRTTMedian
	peerRTTP95
	peerRTTMax
	peerRTTSum
	quicSent
	quicSentPassed
	quicSentReported
	quicReceived
	quicReceivedPassed
	quicReceivedReported
	_
	tcpSent
	tcpSentRetransmissions
	ecnSentCapable
	ecnSentMarked
	tcpReceived
	tcpReceivedRetransmissions
	ecnReceivedCapable
	ecnReceivedMarked
	oneDirectionRTTCount
	oneDirectionRTTMin
	oneDirectionRTTMedian
	oneDirectionRTTP95
	oneDirectionRTTMax
	oneDirectionRTTSum
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

// element describes an enterprise-specific element.
type element struct {
	id              uint16
	name            string
	kind, semantics uint8
	unit            uint16
	text            string
}

// greatest returns the largest value. Texts have none.
func (e element) greatest() uint64 {
	if e.kind == typeUnsigned64 {
		return math.MaxUint64
	}
	return 0
}

func (e element) add(b []byte, enterprise uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, enterprise)
	b = binary.BigEndian.AppendUint16(b, e.id)
	b = append(b, e.kind, e.semantics)
	b = binary.BigEndian.AppendUint16(b, e.unit)
	b = binary.BigEndian.AppendUint64(b, 0) // the least value
	b = binary.BigEndian.AppendUint64(b, e.greatest())
	return appendText(appendText(b, e.name), e.text)
}

// elements are all of them.
var elements = []element{
	{group, "prefixGroup", typeString, semanticsDefault, unitNone,
		"name of the group of prefixes that the record is about"},
	{peer, "peerPrefixOrGroup", typeString, semanticsDefault, unitNone, "prefix or group at the other end"},
	{rttCount, "rttDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitNone, "RTTs of the hosts of the prefix"},
	{rttMin, "rttMinimumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"least of the RTTs in rttDeltaCount"},
	{rttMedian, "rttMedianNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"median of the RTTs in rttDeltaCount"},
	{rttP95, "rttPercentile95Nanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"95th percentile of the RTTs in rttDeltaCount"},
	{rttMax, "rttMaximumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"largest of the RTTs in rttDeltaCount"},
	{rttSum, "rttSumNanoseconds", typeUnsigned64, semanticsDeltaCounter, unitNanoseconds,
		"sum of the RTTs in rttDeltaCount"},
	{peerRTTCount, "peerRttDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitNone,
		"RTTs of the hosts that hosts of the prefix talk to"},
	{peerRTTMin, "peerRttMinimumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"least of the RTTs in peerRttDeltaCount"},
	{peerRTTMedian, "peerRttMedianNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"median of the RTTs in peerRttDeltaCount"},
	{peerRTTP95, "peerRttPercentile95Nanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"95th percentile of the RTTs in peerRttDeltaCount"},
	{peerRTTMax, "peerRttMaximumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"largest of the RTTs in peerRttDeltaCount"},
	{peerRTTSum, "peerRttSumNanoseconds", typeUnsigned64, semanticsDeltaCounter, unitNanoseconds,
		"sum of the RTTs in peerRttDeltaCount"},
	{quicSent, "quicSentDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"QUIC packets that the prefix sent, in whole blocks of 64"},
	{quicSentPassed, "quicSentPassedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"packets of quicSentDeltaCount that passed the monitor"},
	{quicSentReported, "quicSentReportedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"losses that the senders of quicSentDeltaCount have noticed"},
	{quicReceived, "quicReceivedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"QUIC packets that were sent to the prefix, in whole blocks of 64"},
	{quicReceivedPassed, "quicReceivedPassedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"packets of quicReceivedDeltaCount that passed the monitor"},
	{quicReceivedReported, "quicReceivedReportedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"losses that the senders of quicReceivedDeltaCount have noticed"},
	{tcpSent, "tcpSentDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"TCP segments that the prefix sent"},
	{tcpSentRetransmissions, "tcpSentRetransmissionDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"segments of tcpSentDeltaCount that were sent again"},
	{ecnSentCapable, "ecnSentCapableDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"packets that the prefix sent, and that may be marked instead of dropped"},
	{ecnSentMarked, "ecnSentMarkedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"packets of ecnSentCapableDeltaCount that were marked (CE)"},
	{tcpReceived, "tcpReceivedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"TCP segments that were sent to the prefix"},
	{tcpReceivedRetransmissions, "tcpReceivedRetransmissionDeltaCount", typeUnsigned64, semanticsDeltaCounter,
		unitPackets, "segments of tcpReceivedDeltaCount that were sent again"},
	{ecnReceivedCapable, "ecnReceivedCapableDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"packets that were sent to the prefix, and that may be marked instead of dropped"},
	{ecnReceivedMarked, "ecnReceivedMarkedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets,
		"packets of ecnReceivedCapableDeltaCount that were marked (CE)"},
	{oneDirectionRTTCount, "oneDirectionRttDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitNone,
		"RTTs of the whole path, of flows with one direction seen"},
	{oneDirectionRTTMin, "oneDirectionRttMinimumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"least of the RTTs in oneDirectionRttDeltaCount"},
	{oneDirectionRTTMedian, "oneDirectionRttMedianNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"median of the RTTs in oneDirectionRttDeltaCount"},
	{oneDirectionRTTP95, "oneDirectionRttPercentile95Nanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"95th percentile of the RTTs in oneDirectionRttDeltaCount"},
	{oneDirectionRTTMax, "oneDirectionRttMaximumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds,
		"largest of the RTTs in oneDirectionRttDeltaCount"},
	{oneDirectionRTTSum, "oneDirectionRttSumNanoseconds", typeUnsigned64, semanticsDeltaCounter, unitNanoseconds,
		"sum of the RTTs in oneDirectionRttDeltaCount"},
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
