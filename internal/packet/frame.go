package packet

import "encoding/binary"

// Frame types (RFC 9000 §19, RFC 9221 §4, draft-ietf-quic-ack-frequency-12 §4 and §5).
const (
	FramePing              = 0x01
	FrameAck               = 0x02
	FrameAckECN            = 0x03
	FrameResetStream       = 0x04
	FrameStream            = 0x08 // with flags
	FrameDataBlocked       = 0x14
	FrameStreamDataBlocked = 0x15
	FrameStreamsBlockedUni = 0x17
	FrameImmediateAck      = 0x1f
	FrameDatagram          = 0x30 // without a length: it extends to the end of the packet
	FrameAckFrequency      = 0xaf
)

// Flags of FrameStream. Without a length, the frame extends to the end of the packet.
const (
	FrameStreamFIN    = 0x01
	FrameStreamOffset = 0x04
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

// varintLength returns how many bytes appendVarint appends.
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

// AppendStreamHeader appends a STREAM frame up to its data, which extends to the end of the packet.
func AppendStreamHeader(b []byte, id, offset int64, fin bool) []byte {
	t := byte(FrameStream)
	if offset > 0 {
		t |= FrameStreamOffset
	}
	if fin {
		t |= FrameStreamFIN
	}
	b = appendVarint(append(b, t), uint64(id))
	if offset > 0 {
		b = appendVarint(b, uint64(offset))
	}
	return b
}

// StreamHeaderLength returns how many bytes AppendStreamHeader appends.
func StreamHeaderLength(id, offset int64) int {
	n := 1 + varintLength(uint64(id))
	if offset > 0 {
		n += varintLength(uint64(offset))
	}
	return n
}

// AppendFrame appends a frame that consists of a type and integers.
func AppendFrame(b []byte, t byte, fields ...uint64) []byte {
	b = appendVarint(b, uint64(t))
	for _, f := range fields {
		b = appendVarint(b, f)
	}
	return b
}
