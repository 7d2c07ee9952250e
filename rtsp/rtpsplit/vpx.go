package rtpsplit

import (
	"bytes"
	"encoding/binary"

	pion "github.com/pion/rtp/codecs"
)

// vp8Begins is a bit in the first byte of the payload descriptor of VP8 (RFC 7741 §4.2).
const vp8Begins = 0x10

func splitVP8(b []byte, room int) []piece {
	frame, err := new(pion.VP8Packet).Unmarshal(b)
	if err != nil {
		return nil
	}
	size := len(b) - len(frame)
	later := append([]byte{b[0] &^ vp8Begins}, b[1:size]...)
	return splitAfter(b, size, later, room)
}

// Bits in the first byte of the payload descriptor of VP9 (RFC 9628 §4.2).
const (
	vp9Begins    = 0x08
	vp9Ends      = 0x04
	vp9Structure = 0x02
)

func splitVP9(b []byte, room int) []piece {
	size, structure := descriptorOfVP9(b)
	if size == 0 {
		return nil
	}
	later := append([]byte{b[0] &^ (vp9Begins | vp9Structure)}, b[1:structure]...)
	pieces := splitAfter(b, size, later, room)
	for i := range pieces[:max(len(pieces)-1, 0)] {
		one := append([]byte{pieces[i].payload[0] &^ vp9Ends}, pieces[i].payload[1:]...)
		pieces[i].payload = one
	}
	return pieces
}

// descriptorOfVP9 returns how long the descriptor of a payload is, or 0, and where the scalability structure begins,
// which is its end.
func descriptorOfVP9(b []byte) (size, structure int) {
	frame, err := new(pion.VP9Packet).Unmarshal(b)
	if err != nil {
		return 0, 0
	}
	plain := bytes.Clone(b)
	plain[0] &^= vp9Structure
	rest, _ := new(pion.VP9Packet).Unmarshal(plain) // with less to read
	return len(b) - len(frame), len(b) - len(rest)
}

// splitAfter returns pieces of a payload that has a descriptor. The first piece has that one, and the others the later
// one.
func splitAfter(b []byte, descriptor int, later []byte, room int) []piece {
	if descriptor >= room || len(later) >= room {
		return nil
	}
	pieces := []piece{{payload: b[:room:room]}}
	for rest := b[room:]; len(rest) > 0; {
		n := min(len(rest), room-len(later))
		pieces = append(pieces, piece{payload: append(later[:len(later):len(later)], rest[:n]...)})
		rest = rest[n:]
	}
	return pieces
}

// The header of MJPEG (RFC 2435 §3.1).
const (
	jpegHeader   = 8
	jpegRestarts = 64  // types from here on have another header
	jpegTables   = 128 // with a Q from here on, the first packet has tables
)

// splitJPEG returns pieces of a picture, which have their offsets in it.
func splitJPEG(b []byte, room int) []piece {
	if len(b) < jpegHeader || b[4] >= jpegRestarts {
		return nil
	}
	offset, size := binary.BigEndian.Uint32(b)&0xffffff, jpegHeader
	if offset == 0 && b[5] >= jpegTables {
		if len(b) < jpegHeader+4 {
			return nil
		}
		size += 4 + int(binary.BigEndian.Uint16(b[jpegHeader+2:]))
	}
	pieces := splitAfter(b, size, b[:jpegHeader], room)
	offset -= uint32(size)
	for i := range pieces {
		if i > 0 {
			at := binary.BigEndian.Uint32(pieces[i].payload)&0xff000000 | offset&0xffffff
			binary.BigEndian.PutUint32(pieces[i].payload, at)
			offset -= jpegHeader
		}
		offset += uint32(len(pieces[i].payload))
	}
	return pieces
}
