package ipfix

import (
	"encoding/binary"
	"slices"
	"strings"

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
	all = append(all, ownFields(tcpSent, tcpReceived, quicSent, quicReceived, rtts)...)
	if a.Parts {
		all = append(all, ownFields(peerRTTs)...)
	}
	if a.OneDirection {
		all = append(all, ownFields(oneDirectionRTTs)...)
	}
	return all
}

// ownFields are enterprise-specific elements.
func ownFields(lists ...[]element) (all []field) {
	for _, e := range slices.Concat(lists...) {
		all = append(all, number64(e.id, own, e.value))
	}
	return all
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
