package wire

import (
	"encoding/binary"
	"net/netip"
)

// EtherTypes of packets in tunnels.
const (
	TypeIPv4           = 0x0800
	TypeIPv6           = 0x86dd
	TypeEthernet       = 0x6558
	TypeMPLS           = 0x8847
	TypeERSPAN         = 0x88be
	TypeOldServiceVLAN = 0x9100
)

// UDP ports of tunnels.
const (
	VXLANPort  = 4789
	GENEVEPort = 6081
	GTPUPort   = 2152
)

// GRE is a header of RFC 2784 and RFC 2890 in an IP packet.
type GRE struct {
	Flags uint16 // 0x8000: checksum, 0x2000: key, 0x1000: sequence number
	Type  uint16 // EtherType
}

// Between returns the IP packet that carries the payload.
func (g GRE) Between(from, to netip.Addr, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, g.Flags)
	b = binary.BigEndian.AppendUint16(b, g.Type)
	for _, option := range []uint16{0x8000, 0x2000, 0x1000} {
		if g.Flags&option != 0 {
			b = append(b, 1, 2, 3, 4)
		}
	}
	return IP{From: from, To: to, Protocol: 47}.Packet(append(b, payload...))
}

// VXLAN returns the datagram that carries an Ethernet frame (RFC 7348).
func VXLAN(vni uint32, frame []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, vni<<8)
	return append(b, frame...)
}

// GENEVE returns the datagram that carries a packet of some EtherType, after options of so many words (RFC 8926).
func GENEVE(vni uint32, etherType uint16, options int, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{byte(options), 0}, etherType)
	b = binary.BigEndian.AppendUint32(b, vni<<8)
	return append(append(b, make([]byte, 4*options)...), payload...)
}

// GTPU returns the datagram that carries a user's packet (3GPP TS 29.281), after extension headers of these lengths in
// words.
func GTPU(packet []byte, extensions ...int) []byte {
	b := []byte{0x30, 255, 0, 0, 0, 0, 0, 77}
	if len(extensions) > 0 {
		b[0] |= 4
		b = append(b, 0, 0, 0, 0x85)
	}
	for i, words := range extensions {
		e := make([]byte, 4*words)
		e[0] = byte(words)
		if i < len(extensions)-1 {
			e[len(e)-1] = 0x85
		}
		b = append(b, e...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)-8+len(packet)))
	return append(b, packet...)
}

// MPLS returns a packet after labels (RFC 3032).
func MPLS(payload []byte, labels ...uint32) []byte {
	var b []byte
	for i, label := range labels {
		entry := label<<12 | 64
		if i == len(labels)-1 {
			entry |= 0x100
		}
		b = binary.BigEndian.AppendUint32(b, entry)
	}
	return append(b, payload...)
}
