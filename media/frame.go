package media

import "encoding/binary"

// Frame types (RFC 9000 §19, RFC 9221 §4).
const (
	framePing              = 0x01
	frameResetStream       = 0x04
	frameStream            = 0x08
	frameStreamFIN         = 0x01
	frameStreamOffset      = 0x04
	frameDataBlocked       = 0x14
	frameStreamDataBlocked = 0x15
	frameStreamsBlockedUni = 0x17
	frameDatagram          = 0x30 // without a length: it extends to the end of the packet
)

// appendVarint appends a variable-length integer (RFC 9000 §16).
func appendVarint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<6:
		return append(b, byte(v))
	case v < 1<<14:
		return binary.BigEndian.AppendUint16(b, uint16(v)|1<<14)
	case v < 1<<30:
		return binary.BigEndian.AppendUint32(b, uint32(v)|1<<31)
	}
	return binary.BigEndian.AppendUint64(b, v|3<<62)
}

func varintLength(v uint64) int {
	switch {
	case v < 1<<6:
		return 1
	case v < 1<<14:
		return 2
	case v < 1<<30:
		return 4
	}
	return 8
}

// appendStreamHeader appends a STREAM frame up to its data, which extends to the end of the packet.
func appendStreamHeader(b []byte, id, offset int64, fin bool) []byte {
	t := byte(frameStream)
	if offset > 0 {
		t |= frameStreamOffset
	}
	if fin {
		t |= frameStreamFIN
	}
	b = appendVarint(append(b, t), uint64(id))
	if offset > 0 {
		b = appendVarint(b, uint64(offset))
	}
	return b
}

func streamHeaderLength(id, offset int64) int {
	n := 1 + varintLength(uint64(id))
	if offset > 0 {
		n += varintLength(uint64(offset))
	}
	return n
}

// appendFrame appends a frame that consists of a type and integers.
func appendFrame(b []byte, t byte, fields ...uint64) []byte {
	b = append(b, t)
	for _, f := range fields {
		b = appendVarint(b, f)
	}
	return b
}
