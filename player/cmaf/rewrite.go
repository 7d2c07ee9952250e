package cmaf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// rewrite copies the boxes of b. It replaces each by edit's result.
func rewrite(b []byte, edit func(box) []byte) []byte {
	var out []byte
	for x, err := range boxes(b) {
		if err == nil {
			out = append(out, edit(x)...)
		}
	}
	return out
}

// edit copies the boxes of b. It replaces each at the path of types by change's result.
func edit(b []byte, change func(box) []byte, path ...string) []byte {
	return rewrite(b, func(x box) []byte {
		switch {
		case x.typ != path[0]:
			return x.raw
		case len(path) == 1:
			return change(x)
		}
		return makeBox(x.typ, edit(x.body, change, path[1:]...))
	})
}

func makeBox(typ string, body ...[]byte) []byte {
	b := slices.Concat(append([][]byte{make([]byte, 8)}, body...)...)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	copy(b[4:], typ)
	return b
}

// split returns one chunk for each fragment of a moof box. Each has a moof box of its own, to which its offsets are
// relative. position is the position of the moof box in the file.
func split(moof, mdat []byte, position uint64, frags []fragment) ([]Chunk, error) {
	if len(moof)*len(frags) > maxSplit {
		return nil, fmt.Errorf("moof: %d bytes for %d tracks cannot be split: at most %d in all", len(moof), len(frags),
			maxSplit)
	}
	whole := slices.Concat(moof, mdat)
	chunks := make([]Chunk, 0, len(frags))
	var end uint64
	left := uint64(len(whole))
	for i := range frags {
		f := &frags[i]
		if f.encrypted {
			return nil, fmt.Errorf("track %d is encrypted and shares its moof box or is addressed by file position; "+
				"package it with one track in each moof and default-base-is-moof", f.track)
		}
		start := end
		switch {
		case f.base.absolute && f.base.at < position:
			return nil, fmt.Errorf("track %d: media before its moof box", f.track)
		case f.base.absolute:
			start = f.base.at - position
		case f.base.moof:
			start = 0
		}
		var media []byte
		var err error
		if media, end, err = f.gather(whole, start, &left); err != nil {
			return nil, fmt.Errorf("track %d: %w", f.track, err)
		}
		head := f.moof(moof, i, 0)
		head = f.moof(moof, i, len(head)+8)
		chunks = append(chunks, f.chunk(append(head, makeBox("mdat", media)...)))
	}
	return chunks, nil
}

// gather returns the media of all runs, and where in whole the last one ends. Offsets are relative to from. left is how
// many bytes there may be: all runs could be the same bytes, again and again.
func (f *fragment) gather(whole []byte, from uint64, left *uint64) (media []byte, end uint64, err error) {
	end = from
	for _, r := range f.runs {
		start := end
		if r.stated {
			start = from + uint64(int64(r.offset))
		}
		end = start + r.bytes
		if end < start || end > uint64(len(whole)) {
			return nil, 0, errors.New("media outside of the mdat box")
		}
		if r.bytes > *left {
			return nil, 0, errors.New("samples share their media")
		}
		*left -= r.bytes
		media = append(media, whole[start:end]...)
	}
	return media, end, nil
}

// moof returns a copy of a moof box with one of its track fragments. The media starts at offset from the box.
func (f *fragment) moof(old []byte, index, offset int) []byte {
	n := -1
	runs := f.runs
	return edit(old, func(traf box) []byte {
		if n++; n != index {
			return nil
		}
		return makeBox("traf", rewrite(traf.body, func(x box) []byte {
			switch x.typ {
			case "tfhd":
				return relativeToMoof(x)
			case "trun":
				b := withOffset(x, int32(offset))
				offset += int(runs[0].bytes)
				runs = runs[1:]
				return b
			}
			return x.raw
		}))
	}, "moof", "traf")
}

// relativeToMoof returns a tfhd box without a base data offset.
func relativeToMoof(tfhd box) []byte {
	b := slices.Clone(tfhd.body)
	flags := binary.BigEndian.Uint32(b)
	binary.BigEndian.PutUint32(b, flags&^tfhdBaseDataOffset|tfhdBaseIsMoof)
	if flags&tfhdBaseDataOffset != 0 {
		b = slices.Delete(b, 8, 16)
	}
	return makeBox("tfhd", b)
}

// withOffset returns a trun box with this data offset.
func withOffset(trun box, offset int32) []byte {
	b := slices.Clone(trun.body)
	flags := binary.BigEndian.Uint32(b)
	if flags&trunDataOffset == 0 {
		b = slices.Insert(b, 8, 0, 0, 0, 0)
	}
	binary.BigEndian.PutUint32(b, flags|trunDataOffset)
	binary.BigEndian.PutUint32(b[8:], uint32(offset))
	return makeBox("trun", b)
}

// Later returns a Reader's chunk with a later decode time: ticks of its track are added. sequence is its new fragment
// number.
func (c Chunk) Later(ticks uint64, sequence uint32) Chunk {
	first, _ := firstBox(c.Data)
	c.DecodeTime += ticks
	head := edit(first.raw, func(mfhd box) []byte {
		return makeBox("mfhd", mfhd.body[:4], binary.BigEndian.AppendUint32(nil, sequence))
	}, "moof", "mfhd")
	head = edit(head, c.withTime, "moof", "traf", "tfdt")
	if grown := len(head) - len(first.raw); grown != 0 {
		head = edit(head, func(trun box) []byte {
			if stated := binary.BigEndian.Uint32(trun.body)&trunDataOffset != 0; !stated {
				return trun.raw
			}
			return withOffset(trun, int32(binary.BigEndian.Uint32(trun.body[8:]))+int32(grown))
		}, "moof", "traf", "trun")
	}
	c.Data = append(head, c.Data[len(first.raw):]...)
	return c
}

// withTime returns a tfdt box with the chunk's decode time.
func (c Chunk) withTime(tfdt box) []byte {
	b := slices.Clone(tfdt.body[:4])
	if b[0] == 0 && c.DecodeTime <= math.MaxUint32 {
		return makeBox("tfdt", binary.BigEndian.AppendUint32(b, uint32(c.DecodeTime)))
	}
	b[0] = 1 // 64-bit time
	return makeBox("tfdt", binary.BigEndian.AppendUint64(b, c.DecodeTime))
}

// Only returns an init segment with these tracks. Players that decode tracks separately need one for each.
func (in *Init) Only(tracks ...uint32) []byte {
	data := edit(in.Data, func(trak box) []byte {
		if t, err := parseTrak(trak.body); err != nil || !slices.Contains(tracks, t.ID) {
			return nil
		}
		return trak.raw
	}, "moov", "trak")
	return edit(data, func(trex box) []byte {
		if len(trex.body) >= 8 && !slices.Contains(tracks, binary.BigEndian.Uint32(trex.body[4:])) {
			return nil
		}
		return trex.raw
	}, "moov", "mvex", "trex")
}

// Join returns one init segment with the tracks of several. Their ids must differ.
func Join(inits ...*Init) (*Init, error) {
	var traks, extends []byte
	seen := map[uint32]bool{}
	for _, in := range inits {
		for _, t := range in.Tracks {
			if seen[t.ID] {
				return nil, fmt.Errorf("two tracks have the id %d", t.ID)
			}
			seen[t.ID] = true
		}
		moov := find(in.Data, "moov")
		traks = append(traks, only(moov, "trak")...)
		extends = append(extends, only(find(moov, "mvex"), "trex")...)
	}
	return ParseInit(edit(inits[0].Data, func(moov box) []byte {
		rest := rewrite(moov.body, func(x box) []byte {
			if x.typ == "trak" || x.typ == "mvex" {
				return nil
			}
			return x.raw
		})
		return makeBox("moov", rest, traks, makeBox("mvex", extends))
	}, "moov"))
}

// only copies the boxes of one type.
func only(b []byte, typ string) []byte {
	return rewrite(b, func(x box) []byte {
		if x.typ != typ {
			return nil
		}
		return x.raw
	})
}
