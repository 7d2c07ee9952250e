package wire

import "encoding/binary"

// NTP is a message of version 4, or of another one if that is set (RFC 5905 §7.3).
type NTP struct {
	Version, Mode    uint8
	Origin, Transmit uint64 // timestamps
}

// Message returns the message as UDP carries it.
func (n NTP) Message() []byte {
	if n.Version == 0 {
		n.Version = 4
	}
	b := make([]byte, 48)
	b[0] = n.Version<<3 | n.Mode
	binary.BigEndian.PutUint64(b[24:], n.Origin)
	binary.BigEndian.PutUint64(b[40:], n.Transmit)
	return b
}
