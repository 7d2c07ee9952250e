package cmaf

import (
	"encoding/binary"
	"slices"
)

// Renumber returns the init segment with other track IDs. Tracks that ids does not have keep theirs.
func (in *Init) Renumber(ids map[uint32]uint32) (*Init, error) {
	return ParseInit(rewrite(in.Data, func(x box) []byte {
		if x.typ != "moov" {
			return x.raw
		}
		return makeBox("moov", rewrite(x.body, func(y box) []byte {
			switch y.typ {
			case "trak":
				return makeBox("trak", rewrite(y.body, func(z box) []byte {
					if z.typ == "tkhd" {
						return renumber(z, len(z.body)-len(afterTimes(z.body)), ids)
					}
					return z.raw
				}))
			case "mvex":
				return makeBox("mvex", rewrite(y.body, func(z box) []byte {
					if z.typ == "trex" {
						return renumber(z, 4, ids)
					}
					return z.raw
				}))
			}
			return y.raw
		}))
	}))
}

// WithTrack returns a Reader's chunk as one of another track.
func (c Chunk) WithTrack(id uint32) Chunk {
	ids := map[uint32]uint32{c.Track: id}
	first, _ := firstBox(c.Data)
	head := makeBox("moof", rewrite(first.body, func(x box) []byte {
		if x.typ != "traf" {
			return x.raw
		}
		return makeBox("traf", rewrite(x.body, func(y box) []byte {
			if y.typ == "tfhd" {
				return renumber(y, 4, ids)
			}
			return y.raw
		}))
	}))
	c.Track, c.Data = id, slices.Concat(head, c.Data[len(first.raw):])
	return c
}

// renumber replaces the track ID at a place of a box.
func renumber(b box, at int, ids map[uint32]uint32) []byte {
	body := slices.Clone(b.body)
	if at+4 <= len(body) {
		if id, ok := ids[binary.BigEndian.Uint32(body[at:])]; ok {
			binary.BigEndian.PutUint32(body[at:], id)
		}
	}
	return makeBox(b.typ, body)
}
