package rtpsplit

import (
	"encoding/binary"

	"github.com/bluenviron/gortsplib/v5/pkg/format"
)

// splitAAC returns the frames of a payload of mode AAC-hbr in several ones (RFC 3640 §3.3.6). A frame that is cut
// itself, or not in order, stays as it is.
func splitAAC(f *format.MPEG4Audio, b []byte, room int) (pieces []piece) {
	if f.SizeLength != 13 || f.IndexLength != 3 || f.IndexDeltaLength != 3 || f.Config == nil || len(b) < 2 {
		return nil
	}
	samples := 1024
	if f.Config.FrameLengthFlag {
		samples = 960
	}
	bits := int(binary.BigEndian.Uint16(b))
	count := bits / 16
	if bits%16 != 0 || count < 2 || len(b) < 2+2*count {
		return nil
	}
	headers, data := b[2:2+2*count], b[2+2*count:]
	first, size := 0, 0 // of the frames for the next piece
	flush := func(end int) {
		one := binary.BigEndian.AppendUint16(nil, uint16(16*(end-first)))
		one = append(append(one, headers[2*first:2*end]...), data[:size]...)
		pieces = append(pieces, piece{payload: one, later: uint32(first * samples)})
		data, first, size = data[size:], end, 0
	}
	for i := range count {
		h := binary.BigEndian.Uint16(headers[2*i:])
		n := int(h >> 3)
		if h&7 != 0 || n == 0 || size+n > len(data) || 4+n > room {
			return nil
		}
		if 2+2*(i-first+1)+size+n > room {
			flush(i)
		}
		size += n
	}
	if size != len(data) {
		return nil
	}
	flush(count)
	return pieces
}

// splitSamples returns the samples of a payload in several ones. All channels of a sample have so many bytes.
func splitSamples(b []byte, room, sample int) (pieces []piece) {
	if sample < 1 || sample > room || len(b)%sample != 0 {
		return nil
	}
	room -= room % sample
	for at := 0; at < len(b); at += room {
		end := min(at+room, len(b))
		pieces = append(pieces, piece{payload: b[at:end:end], later: uint32(at / sample)})
	}
	return pieces
}
