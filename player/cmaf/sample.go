package cmaf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Sample is one frame of a chunk. Times are in ticks of its track.
type Sample struct {
	DecodeTime uint64
	Offset     int32 // presentation time minus decode time
	Duration   uint32
	Sync       bool
	Data       []byte
}

// appendSamples appends the frames of a fragment whose moof box is at the start of whole. left is as for gather.
func (f *fragment) appendSamples(samples []Sample, whole []byte, left *uint64) ([]Sample, error) {
	switch {
	case f.encrypted:
		return nil, errors.New("encrypted media has no frames that can be taken out")
	case f.base.absolute:
		return nil, errors.New("media is addressed by its position in the file")
	case f.samples > maxSamples-len(samples):
		return nil, fmt.Errorf("more than %d samples in an object", maxSamples)
	}
	media, _, err := f.gather(whole, 0, left)
	if err != nil {
		return nil, err
	}
	at := f.decodeTime
	samples = slices.Grow(samples, f.samples)
	for _, r := range f.runs {
		for i := range r.count {
			s, size := r.sample(i)
			s.DecodeTime, s.Data = at, media[:size:size]
			samples, media, at = append(samples, s), media[size:], at+uint64(s.Duration)
		}
	}
	return samples, nil
}

// sample returns the i-th sample of a run, without its time and media, and the size of its media.
func (r *run) sample(i int) (s Sample, size uint32) {
	row := r.table[i*r.layout.end:]
	field := func(flag uint32, at int, def uint32) uint32 {
		if r.fields&flag == 0 {
			return def
		}
		return binary.BigEndian.Uint32(row[at:])
	}
	flags := r.def.flags
	if i == 0 {
		flags = r.first
	}
	return Sample{
		Duration: field(trunDuration, r.layout.duration, r.def.duration),
		Offset:   int32(field(trunComposite, r.layout.composite, 0)),
		Sync:     isSync(field(trunFlags, r.layout.flags, flags)),
	}, field(trunSize, r.layout.size, r.def.size)
}
