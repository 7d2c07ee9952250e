package pcap

import "encoding/binary"

// linkType is a link type of https://www.tcpdump.org/linktypes.html.
type linkType uint16

// Link types that can be read.
const (
	linkNull       linkType = 0 // BSD loopback: four bytes of address family
	linkEthernet   linkType = 1
	linkRawBSD     linkType = 12
	linkRawOpenBSD linkType = 14
	linkRaw        linkType = 101
	linkLoop       linkType = 108 // like linkNull
	linkSLL        linkType = 113 // Linux "cooked": the EtherType is the last field
	linkIPv4       linkType = 228
	linkIPv6       linkType = 229
	linkSLL2       linkType = 276 // the EtherType is the first field
)

const (
	etherHeader = 14
	nullHeader  = 4
	sllHeader   = 16
	sll2Header  = 20

	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
)

// ethernet replaces the link header with an Ethernet header. removed is the number of bytes by which that shortens the
// packet.
func (l linkType) ethernet(data []byte) (frame []byte, removed int, ok bool) {
	header, etherType := 0, uint16(0)
	switch l {
	case linkEthernet:
		return data, 0, true
	case linkRaw, linkRawBSD, linkRawOpenBSD, linkIPv4, linkIPv6:
	case linkNull, linkLoop:
		header = nullHeader
	case linkSLL:
		header = sllHeader
	case linkSLL2:
		header = sll2Header
	default:
		return nil, 0, false
	}
	if len(data) < header {
		return nil, 0, false
	}
	switch packet := data[header:]; {
	case l == linkSLL:
		etherType = binary.BigEndian.Uint16(data[sllHeader-2:])
	case l == linkSLL2:
		etherType = binary.BigEndian.Uint16(data)
	case len(packet) > 0 && packet[0]>>4 == 6:
		etherType = etherIPv6
	default:
		etherType = etherIPv4
	}
	frame = make([]byte, etherHeader-2, etherHeader+len(data)-header)
	frame = binary.BigEndian.AppendUint16(frame, etherType)
	return append(frame, data[header:]...), header - etherHeader, true
}
