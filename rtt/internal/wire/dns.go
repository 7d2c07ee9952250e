package wire

import (
	"encoding/binary"
	"strings"
)

// DNS is a message with one question (RFC 1035 §4.1).
type DNS struct {
	ID        uint16
	Response  bool
	Opcode    uint8
	RCode     uint8
	Truncated bool
	Name      string // without the final dot; "" is the root
	Type      uint16
	Answers   int  // A records of the name
	EDNS      bool // adds an OPT record
	Questions int  // as the header counts them, if not 1
}

// Message returns the message as UDP carries it.
func (d DNS) Message() []byte {
	b := make([]byte, 12)
	binary.BigEndian.PutUint16(b[0:], d.ID)
	binary.BigEndian.PutUint16(b[2:], d.flags())
	binary.BigEndian.PutUint16(b[4:], 1)
	if d.Questions != 0 {
		binary.BigEndian.PutUint16(b[4:], uint16(d.Questions))
	}
	binary.BigEndian.PutUint16(b[6:], uint16(d.Answers))
	for label := range strings.SplitSeq(d.Name, ".") {
		if label != "" {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	b = binary.BigEndian.AppendUint16(append(b, 0), d.Type)
	b = binary.BigEndian.AppendUint16(b, 1)
	for range d.Answers {
		b = append(b, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1)
	}
	if d.EDNS {
		binary.BigEndian.PutUint16(b[10:], 1)
		b = append(b, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0)
	}
	return b
}

func (d DNS) flags() uint16 {
	f := uint16(d.Opcode)<<11 | 0x0100 | uint16(d.RCode)
	if d.Response {
		f |= 0x8080
	}
	if d.Truncated {
		f |= 0x0200
	}
	return f
}

// Prefixed returns the message as TCP carries it, behind its length.
func (d DNS) Prefixed() []byte {
	m := d.Message()
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}
