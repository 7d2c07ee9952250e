package wire

import "encoding/binary"

// QUIC versions.
const (
	QUICv1 = 0x00000001
	QUICv2 = 0x6b3343cf
)

// LongType is the type of a long header packet; its bits on the wire depend on the version.
type LongType uint8

// Types of RFC 9000 §17.2.
const (
	Initial LongType = iota
	ZeroRTT
	Handshake
	Retry
)

// Long is a datagram with a QUIC long header. Encrypted parts are zeros.
type Long struct {
	Version             uint32 // 0: QUICv1
	Type                LongType
	Destination, Source []byte // connection IDs
	Length              int    // of the datagram; 0: 1200
}

// Datagram returns the UDP payload.
func (l Long) Datagram() []byte {
	if l.Version == 0 {
		l.Version = QUICv1
	}
	bits := byte(l.Type)
	if l.Version == QUICv2 {
		bits = (bits + 1) & 3 // RFC 9369 §3.2
	}
	b := binary.BigEndian.AppendUint32([]byte{0xc0 | bits<<4}, l.Version)
	b = append(append(b, byte(len(l.Destination))), l.Destination...)
	b = append(append(b, byte(len(l.Source))), l.Source...)
	if l.Length == 0 {
		l.Length = 1200
	}
	return append(b, make([]byte, max(0, l.Length-len(b)))...)
}

// Short returns a datagram with a 1-RTT packet. The protected bits of its first byte are the low five of noise.
func Short(spin bool, destination []byte, noise byte, length int) []byte {
	first := 0x40 | noise&0x1f
	if spin {
		first |= 0x20
	}
	b := append([]byte{first}, destination...)
	return append(b, make([]byte, max(0, length-len(b)))...)
}
