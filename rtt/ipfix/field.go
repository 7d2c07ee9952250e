package ipfix

import (
	"encoding/binary"
	"strings"
	"time"

	"sluice/rtt/report"
)

const (
	// variable is the length of elements that begin with their length (RFC 7011 §7).
	variable = 65535
	// reverse is the enterprise number of elements that are about the other direction (RFC 5103 §6.1).
	reverse = 29305
	// own stands for the enterprise number of the exporter.
	own = 1<<32 - 1
	// maxText is the length of texts, such as names of groups, beyond which they are cut.
	maxText = 200
)

// IANA's information elements.
const (
	octetDeltaCount         = 1
	packetDeltaCount        = 2
	protocolIdentifier      = 4
	sourceIPv4PrefixLength  = 9
	sourceIPv6PrefixLength  = 29
	sourceIPv4Prefix        = 44
	ipVersion               = 60
	interfaceName           = 82
	flowStartMilliseconds   = 152
	flowEndMilliseconds     = 153
	sourceIPv6Prefix        = 170
	dot1qVlanID             = 243
	dot1qCustomerVlanID     = 245
	informationElementID    = 303
	informationElementType  = 339
	informationElementText  = 340
	informationElementName  = 341
	informationElementBegin = 342
	informationElementEnd   = 343
	informationElementSem   = 344
	informationElementUnit  = 345
	privateEnterpriseNumber = 346
)

// field is an information element of a template, and how to write its value.
type field struct {
	id, length uint16
	enterprise uint32 // 0: IANA's
	add        func([]byte, *record) []byte
}

// record is the subject of a data record.
type record struct {
	*report.Interval
	*report.Prefix
}

// fields returns the elements of a record that has a prefix of some bytes, or with 0 the name of a group.
func fields(a *report.Aggregation, address int) []field {
	all := []field{
		number64(flowStartMilliseconds, 0, func(r *record) uint64 { return uint64(r.Start.UnixMilli()) }),
		number64(flowEndMilliseconds, 0, func(r *record) uint64 { return uint64(r.End.UnixMilli()) }),
	}
	all = append(all, keyFields(a.By, address)...)
	all = append(all,
		number64(octetDeltaCount, 0, func(r *record) uint64 { return r.Sent.Total().Bytes }),
		number64(packetDeltaCount, 0, func(r *record) uint64 { return r.Sent.Total().Packets }),
		number64(octetDeltaCount, reverse, func(r *record) uint64 { return r.Received.Total().Bytes }),
		number64(packetDeltaCount, reverse, func(r *record) uint64 { return r.Received.Total().Packets }))
	all = append(all, congestionFields(tcpSent, func(r *record) *report.PrefixTraffic { return &r.Sent })...)
	all = append(all, congestionFields(tcpReceived, func(r *record) *report.PrefixTraffic { return &r.Received })...)
	all = append(all,
		number64(quicSent, own, func(r *record) uint64 { return r.LossSent.All }),
		number64(quicSentPassed, own, func(r *record) uint64 { return r.LossSent.Passed }),
		number64(quicSentReported, own, func(r *record) uint64 { return r.LossSent.Reported }),
		number64(quicReceived, own, func(r *record) uint64 { return r.LossReceived.All }),
		number64(quicReceivedPassed, own, func(r *record) uint64 { return r.LossReceived.Passed }),
		number64(quicReceivedReported, own, func(r *record) uint64 { return r.LossReceived.Reported }))
	all = append(all, rttFields(rttCount, func(r *record) *report.Histogram { return &r.RTT })...)
	if a.Parts {
		all = append(all, rttFields(peerRTTCount, func(r *record) *report.Histogram { return &r.PeerRTT })...)
	}
	if a.OneDirection {
		all = append(all, rttFields(oneDirectionRTTCount, func(r *record) *report.Histogram {
			return &r.OneDirection
		})...)
	}
	return all
}

// congestionFields are the elements of one direction: TCP segments, how many of these were sent again, packets that ECN
// may mark, and those that it has marked.
func congestionFields(segments uint16, of func(*record) *report.PrefixTraffic) []field {
	return []field{
		number64(segments, own, func(r *record) uint64 { return of(r).TCPSegments() }),
		number64(segments+1, own, func(r *record) uint64 { return of(r).Retransmissions }),
		number64(segments+2, own, func(r *record) uint64 { return of(r).ECNCapable }),
		number64(segments+3, own, func(r *record) uint64 { return of(r).ECNMarked }),
	}
}

// keyFields are the keys of an aggregate.
func keyFields(by report.Keys, address int) (all []field) {
	switch address {
	case 0:
		all = append(all, text(group, own, func(r *record) string { return r.Group }))
	case 4:
		all = append(all, prefixFields(4, sourceIPv4Prefix, sourceIPv4PrefixLength, 4)...)
	default:
		all = append(all, prefixFields(6, sourceIPv6Prefix, sourceIPv6PrefixLength, 16)...)
	}
	if by.Pair {
		all = append(all, text(peer, own, func(r *record) string { return r.Peer }))
	}
	if by.VLAN {
		all = append(all,
			number16(dot1qVlanID, func(r *record) uint16 { return r.VLAN.ID }),
			number16(dot1qCustomerVlanID, func(r *record) uint16 { return r.VLAN.Inner }))
	}
	if by.Interface {
		all = append(all, text(interfaceName, 0, func(r *record) string { return r.Interface }))
	}
	if by.Protocol {
		all = append(all, field{protocolIdentifier, 1, 0, func(b []byte, r *record) []byte {
			return append(b, protocols[r.Protocol])
		}})
	}
	return all
}

// protocols are the numbers of aggregated protocols. Others have 255, which IANA has reserved, and so have aggregates
// without room, of any protocol.
var protocols = map[string]uint8{"ICMP": 1, "TCP": 6, "UDP": 17, "ICMPv6": 58, "other": 255, "": 255}

// prefixFields are a prefix, after the version of IP: pmacct takes that only from the latter, or from whole addresses.
func prefixFields(version uint8, address, bits, length uint16) []field {
	return []field{
		{ipVersion, 1, 0, func(b []byte, _ *record) []byte { return append(b, version) }},
		{address, length, 0, func(b []byte, r *record) []byte { return append(b, r.Prefix.Addr().AsSlice()...) }},
		{bits, 1, 0, func(b []byte, r *record) []byte { return append(b, uint8(r.Prefix.Bits())) }},
	}
}

// rttFields are the elements of a histogram. The first is the count, the others are in ns.
func rttFields(count uint16, of func(*record) *report.Histogram) []field {
	all := []field{number64(count, own, func(r *record) uint64 { return of(r).Count })}
	for n, value := range []func(*report.Histogram) time.Duration{
		func(h *report.Histogram) time.Duration { return h.Min },
		func(h *report.Histogram) time.Duration { return h.Quantile(0.5) },
		func(h *report.Histogram) time.Duration { return h.Quantile(0.95) },
		func(h *report.Histogram) time.Duration { return h.Max },
		func(h *report.Histogram) time.Duration { return h.Sum },
	} {
		all = append(all, number64(count+1+uint16(n), own, func(r *record) uint64 { return uint64(value(of(r))) }))
	}
	return all
}

// number64 is a number of full size. Shares of two are wrong if one has a size in which it could not grow further.
func number64(id uint16, enterprise uint32, value func(*record) uint64) field {
	return field{id, 8, enterprise, func(b []byte, r *record) []byte {
		return binary.BigEndian.AppendUint64(b, value(r))
	}}
}

func number16(id uint16, value func(*record) uint16) field {
	return field{id, 2, 0, func(b []byte, r *record) []byte { return binary.BigEndian.AppendUint16(b, value(r)) }}
}

func text(id uint16, enterprise uint32, value func(*record) string) field {
	return field{id, variable, enterprise, func(b []byte, r *record) []byte { return appendText(b, value(r)) }}
}

// appendText appends a text after its length. It has no halves of characters.
func appendText(b []byte, s string) []byte {
	s = strings.ToValidUTF8(s[:min(len(s), maxText)], "")
	return append(append(b, uint8(len(s))), s...)
}
