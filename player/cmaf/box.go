package cmaf

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Limits on the memory that a stream can make the reader use. A chunk of one second of 4K video is a few megabytes.
const (
	MaxHeaderSize = 8 << 20  // of a moov or moof box
	MaxMediaSize  = 64 << 20 // of an mdat box
	maxSamples    = 1 << 16  // in one fragment, and in one object
	maxRuns       = 1 << 12  // in one fragment
	maxTracks     = 64       // in one moov
	maxSplit      = 16 << 20 // of the moof boxes that become of one
)

// box is one ISO BMFF box (ISO/IEC 14496-12 §4.2).
type box struct {
	typ  string
	raw  []byte // header included
	body []byte
}

// boxes walks the boxes that fill b. After a malformed box it yields the error and ends.
func boxes(b []byte) iter.Seq2[box, error] {
	return func(yield func(box, error) bool) {
		for len(b) > 0 {
			x, err := firstBox(b)
			if !yield(x, err) || err != nil {
				return
			}
			b = b[len(x.raw):]
		}
	}
}

func firstBox(b []byte) (box, error) {
	if len(b) < 8 {
		return box{}, fmt.Errorf("%d bytes where a box header should be", len(b))
	}
	typ, header := string(b[4:8]), 8
	size := uint64(binary.BigEndian.Uint32(b))
	switch {
	case size == 0: // to the end
		size = uint64(len(b))
	case size == 1 && len(b) >= 16:
		size, header = binary.BigEndian.Uint64(b[8:]), 16
	}
	if size < uint64(header) || size > uint64(len(b)) {
		return box{}, fmt.Errorf("box %q claims %d bytes, %d are there", typ, size, len(b))
	}
	return box{typ: typ, raw: b[:size], body: b[header:size]}, nil
}

// find returns the body of the first box at the path of types, or nil.
func find(b []byte, path ...string) []byte {
	for _, typ := range path {
		var body []byte
		for x, err := range boxes(b) {
			if err == nil && x.typ == typ {
				body = x.body
				break
			}
		}
		if body == nil {
			return nil
		}
		b = body
	}
	return b
}

// header is the size and type of a box that is still in the stream.
type header struct {
	typ  string
	raw  []byte
	size uint64 // header included
}

func readHeader(r io.Reader) (header, error) {
	raw := make([]byte, 8, 16)
	if _, err := io.ReadFull(r, raw); err != nil {
		return header{}, err // io.EOF between two boxes is the regular end
	}
	h := header{typ: string(raw[4:]), raw: raw, size: uint64(binary.BigEndian.Uint32(raw))}
	if h.size == 1 {
		h.raw = raw[:16]
		if _, err := io.ReadFull(r, h.raw[8:]); err != nil {
			return header{}, noEOF(err)
		}
		h.size = binary.BigEndian.Uint64(h.raw[8:])
	}
	if h.size == 0 {
		return header{}, fmt.Errorf("box %q runs to the end of the file, which a stream cannot have", h.typ)
	}
	if h.size < uint64(len(h.raw)) {
		return header{}, fmt.Errorf("box %q claims %d bytes, fewer than its header", h.typ, h.size)
	}
	return h, nil
}

// readRest returns the whole box, header included.
func (h header) readRest(r io.Reader, limit uint64) ([]byte, error) {
	if h.size > limit {
		return nil, fmt.Errorf("box %q has %d bytes, the limit is %d", h.typ, h.size, limit)
	}
	b := slices.Clone(h.raw)
	for uint64(len(b)) < h.size { // not more than comes: anybody can claim a size
		n := int(min(h.size-uint64(len(b)), uint64(max(len(b), readStep))))
		b = slices.Grow(b, n)
		got, err := io.ReadFull(r, b[len(b):len(b)+n])
		if b = b[:len(b)+got]; err != nil {
			return b, noEOF(err)
		}
	}
	return b, nil
}

// readStep is how many bytes of a box there is memory for before any has come.
const readStep = 16 << 10

func (h header) skip(r io.Reader) error {
	_, err := io.CopyN(io.Discard, r, int64(min(h.size-uint64(len(h.raw)), 1<<62)))
	return noEOF(err)
}

// noEOF turns the end of the input in the middle of a box into an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
