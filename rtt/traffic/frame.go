package traffic

import (
	"encoding/binary"
	"net/netip"

	"sluice/rtt/internal/wire"
)

// headers are a frame of one direction of a conversation: each packet is a copy with other numbers in it.
type headers struct {
	frame     []byte
	transport int // where the transport header begins
	protocol  uint8
}

const etherHeader = 14

func newHeaders(packet []byte, addr netip.Addr, protocol uint8) headers {
	h := headers{frame: wire.Frame(packet), transport: etherHeader + 40, protocol: protocol}
	if addr.Is4() {
		h.transport = etherHeader + 20
	}
	return h
}

// tcpHeaders returns the headers of segments with timestamps.
func tcpHeaders(from, to netip.AddrPort) headers {
	return newHeaders(wire.TCP{Timestamps: true}.Between(from, to), from.Addr(), wire.ProtocolTCP)
}

// udpHeaders returns the headers of datagrams that begin with the given bytes.
func udpHeaders(from, to netip.AddrPort, begin []byte) headers {
	return newHeaders(wire.UDP(from, to, begin), from.Addr(), wire.ProtocolUDP)
}

// packet returns a copy of the headers for a payload of further zeros, and the copy's transport header.
func (h headers) packet(zeros int) (frame, transport []byte) {
	frame = append([]byte(nil), h.frame...)
	transport = frame[h.transport:]
	if length := len(transport) + zeros; h.transport == etherHeader+20 {
		binary.BigEndian.PutUint16(frame[etherHeader+2:], uint16(20+length))
	} else {
		binary.BigEndian.PutUint16(frame[etherHeader+4:], uint16(length))
	}
	if h.protocol == wire.ProtocolUDP {
		binary.BigEndian.PutUint16(transport[4:], uint16(len(transport)+zeros))
	}
	return frame, transport
}

// finish sets the checksums. Zeros change nothing in them but the length.
func (h headers) finish(frame []byte, zeros int) {
	ip, transport := frame[etherHeader:h.transport], frame[h.transport:]
	at := 16
	if h.protocol == wire.ProtocolUDP {
		at = 6
	}
	addresses := ip[8:]
	if len(ip) == 20 {
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], ^fold(words(ip)))
		addresses = ip[12:]
	}
	binary.BigEndian.PutUint16(transport[at:], 0)
	sum := words(addresses) + words(transport) + uint32(len(transport)+zeros) + uint32(h.protocol)
	check := ^fold(sum)
	if check == 0 && h.protocol == wire.ProtocolUDP {
		check = 0xffff // RFC 768: zero means no checksum
	}
	binary.BigEndian.PutUint16(transport[at:], check)
}

// words returns the sum of the 16-bit words of b.
func words(b []byte) (sum uint32) {
	for len(b) >= 2 {
		sum += uint32(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
