package loc

import "encoding/binary"

// obu is the header of an Open Bitstream Unit of AV1 (AV1 §5.3).
type obu struct {
	typ      byte
	extended bool
	temporal byte // temporal id, if extended
}

// Types of OBUs.
const (
	obuSequenceHeader    = 1
	obuTemporalDelimiter = 2
)

// CountOBUs returns how many OBUs a frame of AV1 has, or 0 if it is malformed.
func CountOBUs(frame []byte) int {
	list, ok := obus(frame)
	if !ok {
		return 0
	}
	return len(list)
}

// obus returns the headers of the OBUs of a frame, in the format with sizes. ok is false if it is malformed.
func obus(b []byte) (list []obu, ok bool) {
	for len(b) > 0 {
		o := obu{typ: b[0] >> 3 & 15, extended: b[0]&4 != 0}
		sized, at := b[0]&2 != 0, 1
		if b[0]&0x80 != 0 || o.extended && len(b) < 2 {
			return nil, false
		}
		if o.extended {
			o.temporal, at = b[1]>>5, 2
		}
		list = append(list, o)
		if !sized { // up to the end
			break
		}
		size, n := binary.Uvarint(b[at:]) // leb128
		if n <= 0 || size > uint64(len(b)-at-n) {
			return nil, false
		}
		b = b[at+n+int(size):]
	}
	return list, len(list) > 0
}
