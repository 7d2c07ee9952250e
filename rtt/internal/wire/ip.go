package wire

import (
	"encoding/binary"
	"net/netip"
)

// IP protocol numbers.
const (
	ProtocolICMP   = 1
	ProtocolTCP    = 6
	ProtocolUDP    = 17
	ProtocolICMPv6 = 58
)

// IP is an IPv4 or IPv6 header, as the addresses say.
type IP struct {
	From, To netip.Addr
	Protocol uint8
	ECN      uint8  // codepoint, 0-3
	Fragment uint16 // IPv4: flags and offset as in the header
	Options  []byte // IPv4: a multiple of 4 bytes. IPv6: extension headers, each naming the next
	Next     uint8  // IPv6: type of the first extension header
}

// Packet returns the packet with its checksums.
func (h IP) Packet(payload []byte) []byte {
	if h.From.Is4() {
		return h.ipv4(payload)
	}
	return h.ipv6(payload)
}

func (h IP) ipv4(payload []byte) []byte {
	n := 20 + len(h.Options)
	b := make([]byte, n, n+len(payload))
	b[0] = 0x40 | byte(n/4)
	b[1] = h.ECN
	binary.BigEndian.PutUint16(b[2:], uint16(n+len(payload)))
	binary.BigEndian.PutUint16(b[6:], h.Fragment)
	b[8], b[9] = 64, h.Protocol
	copy(b[12:], h.From.AsSlice())
	copy(b[16:], h.To.AsSlice())
	copy(b[20:], h.Options)
	binary.BigEndian.PutUint16(b[10:], ^sum(0, b))
	return append(b, h.checked(payload)...)
}

func (h IP) ipv6(payload []byte) []byte {
	b := make([]byte, 40, 40+len(h.Options)+len(payload))
	binary.BigEndian.PutUint32(b, 6<<28|uint32(h.ECN)<<20)
	binary.BigEndian.PutUint16(b[4:], uint16(len(h.Options)+len(payload)))
	b[6], b[7] = h.Protocol, 64
	if len(h.Options) > 0 {
		b[6] = h.Next
	}
	copy(b[8:], h.From.AsSlice())
	copy(b[24:], h.To.AsSlice())
	return append(append(b, h.Options...), h.checked(payload)...)
}

// checked fills in the checksum of a transport header whose checksum is zero.
func (h IP) checked(payload []byte) []byte {
	at, ok := map[uint8]int{ProtocolTCP: 16, ProtocolUDP: 6, ProtocolICMP: 2, ProtocolICMPv6: 2}[h.Protocol]
	if !ok || len(payload) < at+2 || binary.BigEndian.Uint16(payload[at:]) != 0 {
		return payload
	}
	var pseudo []byte
	if h.Protocol != ProtocolICMP {
		pseudo = append(h.From.AsSlice(), h.To.AsSlice()...)
		pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(payload)))
		pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(h.Protocol))
	}
	c := ^sum(sum(0, pseudo), payload)
	if c == 0 && h.Protocol == ProtocolUDP {
		c = 0xffff // RFC 768: zero means no checksum
	}
	binary.BigEndian.PutUint16(payload[at:], c)
	return payload
}

// sum returns the ones' complement sum of RFC 1071.
func sum(start uint16, b []byte) uint16 {
	s := uint32(start)
	for len(b) >= 2 {
		s += uint32(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
