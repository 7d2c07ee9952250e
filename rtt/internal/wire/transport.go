package wire

import (
	"encoding/binary"
	"net/netip"
)

// TCP flags.
const (
	FIN = 0x01
	SYN = 0x02
	RST = 0x04
	PSH = 0x08
	ACK = 0x10
)

// TCP is a segment. Its payload is Length zero bytes, or Payload.
type TCP struct {
	Seq, Ack   uint32
	Flags      uint8
	Timestamps bool
	Val, Ecr   uint32
	Options    []byte // before the timestamps, which then are not at their usual place; padded with zeros
	Length     int
	Payload    []byte
}

// Between returns the IP packet that carries the segment from one end to the other.
func (t TCP) Between(from, to netip.AddrPort) []byte {
	return IP{From: from.Addr(), To: to.Addr(), Protocol: ProtocolTCP}.Packet(t.Segment(from.Port(), to.Port()))
}

// Segment returns the segment without a checksum.
func (t TCP) Segment(from, to uint16) []byte {
	options := append([]byte(nil), t.Options...)
	if t.Timestamps {
		if len(options) == 0 {
			options = append(options, 1, 1)
		}
		options = append(options, 8, 10)
		options = binary.BigEndian.AppendUint32(options, t.Val)
		options = binary.BigEndian.AppendUint32(options, t.Ecr)
	}
	for len(options)%4 != 0 {
		options = append(options, 0)
	}
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b[0:], from)
	binary.BigEndian.PutUint16(b[2:], to)
	binary.BigEndian.PutUint32(b[4:], t.Seq)
	binary.BigEndian.PutUint32(b[8:], t.Ack)
	b[12] = byte(5+len(options)/4) << 4
	b[13] = t.Flags
	binary.BigEndian.PutUint16(b[14:], 0xffff)
	b = append(b, options...)
	if t.Payload != nil {
		return append(b, t.Payload...)
	}
	return append(b, make([]byte, t.Length)...)
}

// UDP returns the IP packet that carries a datagram from one end to the other.
func UDP(from, to netip.AddrPort, payload []byte) []byte {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b[0:], from.Port())
	binary.BigEndian.PutUint16(b[2:], to.Port())
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	return IP{From: from.Addr(), To: to.Addr(), Protocol: ProtocolUDP}.Packet(append(b, payload...))
}

// Echo is an ICMP or ICMPv6 echo, as the addresses say.
type Echo struct {
	Reply   bool
	Code    uint8
	ID, Seq uint16
	Length  int   // of the data
	Type    uint8 // instead of an echo's
}

// Between returns the IP packet that carries the echo.
func (e Echo) Between(from, to netip.Addr) []byte {
	typ, protocol := byte(8), uint8(ProtocolICMP)
	if e.Reply {
		typ = 0
	}
	if from.Is6() {
		typ, protocol = 128, ProtocolICMPv6
		if e.Reply {
			typ = 129
		}
	}
	if e.Type != 0 {
		typ = e.Type
	}
	b := []byte{typ, e.Code, 0, 0}
	b = binary.BigEndian.AppendUint16(b, e.ID)
	b = binary.BigEndian.AppendUint16(b, e.Seq)
	return IP{From: from, To: to, Protocol: protocol}.Packet(append(b, make([]byte, e.Length)...))
}
