package rtpsplit

import "encoding/binary"

// Bits of the aggregation header (RTP Payload Format For AV1 §4.4).
const (
	av1Continues = 0x80 // Z: the first element is the rest of an OBU
	av1Breaks    = 0x40 // Y: the rest of the last element is in the next packet
	av1Count     = 0x30 // W: how many elements there are, if the last one has no length
	av1New       = 0x08 // N: a coded video sequence begins
)

// splitAV1 returns payloads whose elements all have a length. An OBU that does not fit becomes fragments.
func splitAV1(b []byte, room int) (pieces []piece) {
	if len(b) == 0 {
		return nil
	}
	head, elements := b[0], elementsOf(b)
	if elements == nil {
		return nil
	}
	out := []byte{head & (av1Continues | av1New)}
	for _, e := range elements {
		for whole := true; len(e) > 0; whole = false {
			n := min(len(e), room-len(out)-2) // a length has 1 or 2 bytes
			if n < 1 {
				if !whole {
					out[0] |= av1Breaks
				}
				pieces = append(pieces, piece{payload: out})
				out = []byte{0}
				if !whole {
					out[0] = av1Continues
				}
				continue
			}
			out = append(binary.AppendUvarint(out, uint64(n)), e[:n]...)
			e = e[n:]
		}
	}
	out[0] |= head & av1Breaks
	return append(pieces, piece{payload: out})
}

// elementsOf returns the elements of a payload, or nil if they cannot be told apart.
func elementsOf(b []byte) (list [][]byte) {
	count := int(b[0]&av1Count) >> 4
	for b = b[1:]; len(b) > 0; {
		size := uint64(len(b))
		if count == 0 || len(list) < count-1 {
			n := 0
			size, n = binary.Uvarint(b)
			b = b[max(n, 0):]
			if n <= 0 {
				return nil
			}
		}
		if size == 0 || size > uint64(len(b)) {
			return nil
		}
		list = append(list, b[:size])
		b = b[size:]
	}
	return list
}
