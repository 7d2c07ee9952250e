package ipfix

import (
	"encoding/binary"

	"sluice/rtt/report"
)

const (
	// variable is the length of elements that begin with their length (RFC 7011 §7).
	variable = 65535
	// reverse is the enterprise number of elements that are about the other direction (RFC 5103 §6.1).
	reverse = 29305
)

// IANA's information elements.
const (
	octetDeltaCount        = 1
	packetDeltaCount       = 2
	protocolIdentifier     = 4
	sourceIPv4PrefixLength = 9
	sourceIPv6PrefixLength = 29
	sourceIPv4Prefix       = 44
	ipVersion              = 60
	interfaceName          = 82
	flowStartMilliseconds  = 152
	flowEndMilliseconds    = 153
	sourceIPv6Prefix       = 170
	dot1qVlanID            = 243
	dot1qCustomerVlanID    = 245
)

// field is an information element of a template.
type field struct {
	id, length uint16
	enterprise uint32 // 0: IANA's
	// add writes its value, and the values of the fields that follow it and have no add of their own.
	add func([]byte, *record) []byte
}

// record is the subject of a data record.
type record struct {
	*report.Interval
	*report.Prefix
}

// fields returns the elements of a record that has a prefix of some bytes, or with 0 the name of a group.
func fields(a *report.Aggregation, address int, enterprise uint32) []field {
	all := []field{
		number(flowStartMilliseconds, 0, func(r *record) uint64 { return uint64(r.Start.UnixMilli()) }),
		number(flowEndMilliseconds, 0, func(r *record) uint64 { return uint64(r.End.UnixMilli()) }),
	}
	all = append(all, subjectFields(address, enterprise)...)
	all = append(all, keyFields(a.By, enterprise)...)
	all = append(all,
		number(octetDeltaCount, 0, func(r *record) uint64 { return r.Sent.Total().Bytes }),
		number(packetDeltaCount, 0, func(r *record) uint64 { return r.Sent.Total().Packets }),
		number(octetDeltaCount, reverse, func(r *record) uint64 { return r.Received.Total().Bytes }),
		number(packetDeltaCount, reverse, func(r *record) uint64 { return r.Received.Total().Packets }))
	for _, v := range ownValues(a) {
		all = append(all, v.fields(enterprise)...)
	}
	return all
}

// subjectFields are the prefix or the group of a record. A prefix stands after the version of IP: pmacct takes that
// only from the latter, or from whole addresses.
func subjectFields(address int, enterprise uint32) []field {
	prefix, bits, version := uint16(sourceIPv6Prefix), uint16(sourceIPv6PrefixLength), byte(6)
	switch address {
	case 0:
		return []field{text(group, enterprise, func(r *record) string { return r.Group })}
	case 4:
		prefix, bits, version = sourceIPv4Prefix, sourceIPv4PrefixLength, 4
	}
	return []field{
		{ipVersion, 1, 0, func(b []byte, r *record) []byte {
			return append(append(append(b, version), r.Prefix.Addr().AsSlice()...), uint8(r.Prefix.Bits()))
		}},
		{id: prefix, length: uint16(address)}, {id: bits, length: 1},
	}
}

// keyFields are what tells the aggregates of a prefix apart.
func keyFields(by report.Keys, enterprise uint32) (all []field) {
	if by.Pair {
		all = append(all, text(peer, enterprise, func(r *record) string { return r.Peer }))
	}
	if by.VLAN {
		all = append(all,
			tag(dot1qVlanID, func(r *record) uint16 { return r.VLAN.ID }),
			tag(dot1qCustomerVlanID, func(r *record) uint16 { return r.VLAN.Inner }))
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

// number is a number of full size. Shares of two are wrong if one has a size in which it could not grow further.
func number(id uint16, enterprise uint32, value func(*record) uint64) field {
	return field{id, 8, enterprise, func(b []byte, r *record) []byte {
		return binary.BigEndian.AppendUint64(b, value(r))
	}}
}

func tag(id uint16, value func(*record) uint16) field {
	return field{id, 2, 0, func(b []byte, r *record) []byte { return binary.BigEndian.AppendUint16(b, value(r)) }}
}

func text(id uint16, enterprise uint32, value func(*record) string) field {
	return field{id, variable, enterprise, func(b []byte, r *record) []byte { return appendText(b, value(r)) }}
}

// appendText appends a text after its length. Texts are short: names of groups have at most 64 bytes.
func appendText(b []byte, s string) []byte { return append(append(b, uint8(len(s))), s...) }
