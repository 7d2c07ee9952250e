package wire

import "encoding/binary"

// Types of STUN messages (RFC 8489 §18.2, RFC 8656 §17).
const (
	BindingRequest    = 0x0001
	BindingIndication = 0x0011
	BindingSuccess    = 0x0101
	BindingError      = 0x0111
	AllocateRequest   = 0x0003
	AllocateError     = 0x0113
)

// STUN is a message with Length bytes of attributes (RFC 8489 §5).
type STUN struct {
	Type   uint16
	ID     [12]byte
	Length int
}

// Message returns the message as UDP carries it.
func (s STUN) Message() []byte {
	b := binary.BigEndian.AppendUint16(nil, s.Type)
	b = binary.BigEndian.AppendUint16(b, uint16(s.Length))
	b = append(append(b, 0x21, 0x12, 0xa4, 0x42), s.ID[:]...)
	return append(b, make([]byte, s.Length)...)
}
