package ipfix

import "encoding/binary"

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
}

func (e element) add(b []byte, enterprise uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, enterprise)
	b = binary.BigEndian.AppendUint16(b, e.id)
	b = append(b, e.kind, e.semantics)
	b = binary.BigEndian.AppendUint16(b, e.unit)
	return appendText(b, e.name)
}

// elements are all of them.
var elements = []element{
	{group, "prefixGroup", typeString, semanticsDefault, unitNone},
	{peer, "peerPrefixOrGroup", typeString, semanticsDefault, unitNone},
	{rttCount, "rttDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitNone},
	{rttMin, "rttMinimumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{rttMedian, "rttMedianNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{rttP95, "rttPercentile95Nanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{rttMax, "rttMaximumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{rttSum, "rttSumNanoseconds", typeUnsigned64, semanticsDeltaCounter, unitNanoseconds},
	{peerRTTCount, "peerRttDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitNone},
	{peerRTTMin, "peerRttMinimumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{peerRTTMedian, "peerRttMedianNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{peerRTTP95, "peerRttPercentile95Nanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{peerRTTMax, "peerRttMaximumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{peerRTTSum, "peerRttSumNanoseconds", typeUnsigned64, semanticsDeltaCounter, unitNanoseconds},
	{quicSent, "quicSentDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{quicSentPassed, "quicSentPassedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{quicSentReported, "quicSentReportedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{quicReceived, "quicReceivedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{quicReceivedPassed, "quicReceivedPassedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{quicReceivedReported, "quicReceivedReportedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{tcpSent, "tcpSentDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{tcpSentRetransmissions, "tcpSentRetransmissionDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{ecnSentCapable, "ecnSentCapableDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{ecnSentMarked, "ecnSentMarkedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{tcpReceived, "tcpReceivedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{tcpReceivedRetransmissions, "tcpReceivedRetransmissionDeltaCount", typeUnsigned64, semanticsDeltaCounter,
		unitPackets},
	{ecnReceivedCapable, "ecnReceivedCapableDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{ecnReceivedMarked, "ecnReceivedMarkedDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitPackets},
	{oneDirectionRTTCount, "oneDirectionRttDeltaCount", typeUnsigned64, semanticsDeltaCounter, unitNone},
	{oneDirectionRTTMin, "oneDirectionRttMinimumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{oneDirectionRTTMedian, "oneDirectionRttMedianNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{oneDirectionRTTP95, "oneDirectionRttPercentile95Nanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{oneDirectionRTTMax, "oneDirectionRttMaximumNanoseconds", typeUnsigned64, semanticsQuantity, unitNanoseconds},
	{oneDirectionRTTSum, "oneDirectionRttSumNanoseconds", typeUnsigned64, semanticsDeltaCounter, unitNanoseconds},
}

// elementFields are the elements by which a record describes an element. The first two are its scope.
var elementFields = []field{
	{id: privateEnterpriseNumber, length: 4}, {id: informationElementID, length: 2},
	{id: informationElementType, length: 1}, {id: informationElementSem, length: 1},
	{id: informationElementUnit, length: 2}, {id: informationElementName, length: variable},
}
