package rtpsplit

import "encoding/binary"

// Bits of the payload descriptor of VP8 (RFC 7741 §4.2).
const (
	vp8Extended   = 0x80 // in the first byte
	vp8Begins     = 0x10
	vp8Picture    = 0x80 // in the second one
	vp8Level      = 0x40
	vp8Layer      = 0x20
	vp8Key        = 0x10
	pictureIsLong = 0x80 // of VP9, too
)

func splitVP8(b []byte, room int) []piece {
	size := descriptorOfVP8(b)
	if size == 0 {
		return nil
	}
	later := append([]byte{b[0] &^ vp8Begins}, b[1:size]...)
	return splitAfter(b, size, later, room)
}

// descriptorOfVP8 returns how long the descriptor of a payload is, or 0.
func descriptorOfVP8(b []byte) int {
	r := fields{rest: b}
	if r.next()&vp8Extended == 0 {
		return r.read(b)
	}
	has := r.next()
	if has&vp8Picture != 0 && r.next()&pictureIsLong != 0 {
		r.next()
	}
	if has&vp8Level != 0 {
		r.next()
	}
	if has&(vp8Layer|vp8Key) != 0 {
		r.next()
	}
	return r.read(b)
}

// Bits of the payload descriptor of VP9 (RFC 9628 §4.2).
const (
	vp9Picture   = 0x80
	vp9Predicted = 0x40
	vp9Layers    = 0x20
	vp9Flexible  = 0x10
	vp9Begins    = 0x08
	vp9Ends      = 0x04
	vp9Structure = 0x02
	vp9More      = 0x01 // of the differences of pictures
	vp9Sizes     = 0x10 // of the scalability structure
	vp9Group     = 0x08
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
	r := fields{rest: b}
	has := r.next()
	if has&vp9Picture != 0 && r.next()&pictureIsLong != 0 {
		r.next()
	}
	if has&vp9Layers != 0 {
		r.next()
		if has&vp9Flexible == 0 {
			r.next()
		}
	}
	if has&vp9Flexible != 0 && has&vp9Predicted != 0 {
		for range 3 {
			if r.next()&vp9More == 0 {
				break
			}
		}
	}
	structure = r.read(b)
	if has&vp9Structure != 0 {
		r.structure()
	}
	return r.read(b), structure
}

// structure skips a scalability structure.
func (r *fields) structure() {
	has := r.next()
	if has&vp9Sizes != 0 {
		r.skip((int(has>>5) + 1) * 4)
	}
	if has&vp9Group == 0 {
		return
	}
	for range r.next() {
		r.skip(int(r.next() >> 2 & 3))
	}
}

// fields reads bytes. Beyond the end, it fails.
type fields struct {
	rest   []byte
	failed bool
}

func (r *fields) next() byte {
	if len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *fields) skip(n int) {
	r.failed = r.failed || n > len(r.rest)
	r.rest = r.rest[min(n, len(r.rest)):]
}

// read returns how many bytes were read of b, or 0.
func (r *fields) read(b []byte) int {
	if r.failed {
		return 0
	}
	return len(b) - len(r.rest)
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
