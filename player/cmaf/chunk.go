package cmaf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Chunk is a CMAF chunk of one track: a moof box and its mdat box.
type Chunk struct {
	Track      uint32
	DecodeTime uint64 // of the first sample, in ticks of the track
	Duration   uint64 // in ticks
	Samples    int
	Sync       bool // the first sample is a sync sample: decoding can start here
	Data       []byte
}

// ParseChunk reads the description of a MoQ object with one or more chunks of a single track, one after the other
// (draft-ietf-moq-cmsf, Object Packaging). Other boxes around them are skipped. The media itself is not parsed.
func (in *Init) ParseChunk(object []byte) (Chunk, error) {
	c := Chunk{Data: object}
	for x, err := range boxes(object) {
		if err != nil {
			return c, err
		}
		if x.typ != "moof" {
			continue
		}
		frags, err := in.parseMoof(x.body)
		if err != nil {
			return c, err
		}
		for i := range frags {
			if err := c.add(&frags[i]); err != nil {
				return c, err
			}
		}
	}
	if c.Track == 0 {
		return c, errors.New("no moof box in the object")
	}
	return c, nil
}

func (c *Chunk) add(f *fragment) error {
	switch c.Track {
	case 0:
		c.Track, c.DecodeTime, c.Sync = f.track, f.decodeTime, f.sync
	case f.track:
	default:
		return fmt.Errorf("tracks %d and %d in one object", c.Track, f.track)
	}
	c.Duration += f.duration
	c.Samples += f.samples
	return nil
}

// WithTrack returns a Reader's chunk as one of another track.
func (c Chunk) WithTrack(id uint32) Chunk {
	ids := map[uint32]uint32{c.Track: id}
	first, _ := firstBox(c.Data)
	head := edit(first.raw, func(tfhd box) []byte { return renumber(tfhd, 4, ids) }, "moof", "traf", "tfhd")
	c.Track, c.Data = id, slices.Concat(head, c.Data[len(first.raw):])
	return c
}

// fragment is the content of a traf box (ISO/IEC 14496-12 §8.8.6).
type fragment struct {
	track      uint32
	decodeTime uint64
	duration   uint64
	samples    int
	sync       bool
	encrypted  bool // it has sample auxiliary information, whose address this package does not parse
	base       base
	runs       []run
}

// base is the position that data offsets of a fragment are relative to (ISO/IEC 14496-12 §8.8.7).
type base struct {
	absolute bool // a position in the file, at
	moof     bool // the start of the moof box, as by default for the first fragment of a moof box
	at       uint64
}

// run is the media of one trun box.
type run struct {
	stated bool // the box has the field offset; otherwise the media follows the run before
	offset int32
	bytes  uint64

	count  int
	table  []byte // count samples, as layout says
	layout layout
	fields uint32 // flags of the box: which fields samples have
	def    defaults
	first  uint32 // flags of the first sample
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

// parseMoof returns the fragments of the tracks in a moof box, at least one.
func (in *Init) parseMoof(body []byte) ([]fragment, error) {
	var frags []fragment
	for x, err := range boxes(body) {
		if err != nil {
			return nil, fmt.Errorf("moof: %w", err)
		}
		if x.typ == "mfhd" && len(x.body) < 8 {
			return nil, errors.New("moof: the mfhd box is short")
		}
		if x.typ != "traf" {
			continue
		}
		f, err := in.parseTraf(x.body)
		if err != nil {
			return nil, fmt.Errorf("moof: %w", err)
		}
		if frags = append(frags, f); len(frags) > maxTracks {
			return nil, fmt.Errorf("moof: more than %d tracks", maxTracks)
		}
	}
	if len(frags) == 0 {
		return nil, errors.New("moof: no traf box")
	}
	return frags, nil
}

func (in *Init) parseTraf(body []byte) (fragment, error) {
	var f fragment
	var tfhd, tfdt []byte
	var truns [][]byte
	for x, err := range boxes(body) {
		switch {
		case err != nil:
			return f, fmt.Errorf("traf: %w", err)
		case x.typ == "tfhd" && tfhd == nil:
			tfhd = x.body
		case x.typ == "tfdt" && tfdt == nil:
			tfdt = x.body
		case x.typ == "tfhd" || x.typ == "tfdt":
			return f, fmt.Errorf("traf: two %s boxes", x.typ)
		case x.typ == "trun":
			truns = append(truns, x.body)
		case x.typ == "senc" || x.typ == "saio":
			f.encrypted = true
		}
	}
	if len(tfhd) < 8 {
		return f, errors.New("traf: no tfhd box")
	}
	f.track = binary.BigEndian.Uint32(tfhd[4:])
	track := in.Track(f.track)
	if track == nil || f.track == 0 {
		return f, fmt.Errorf("traf: track %d is not in the init segment", f.track)
	}
	return f, f.parse(tfhd, tfdt, truns, track.defaults)
}

func (f *fragment) parse(tfhd, tfdt []byte, truns [][]byte, def defaults) (err error) {
	if def, f.base, err = parseTfhd(tfhd, def); err != nil {
		return fmt.Errorf("track %d: %w", f.track, err)
	}
	if f.decodeTime, err = parseTfdt(tfdt); err != nil {
		return fmt.Errorf("track %d: %w", f.track, err)
	}
	for _, b := range truns {
		if err = f.addRun(b, def); err != nil {
			return fmt.Errorf("track %d: %w", f.track, err)
		}
	}
	return nil
}

// Flags of tfhd and trun (ISO/IEC 14496-12 §8.8.7, §8.8.8) and of a sample (§8.8.3.1).
const (
	tfhdBaseDataOffset = 0x1
	tfhdDescription    = 0x2
	tfhdDuration       = 0x8
	tfhdSize           = 0x10
	tfhdFlags          = 0x20
	tfhdBaseIsMoof     = 0x20000

	trunDataOffset = 0x1
	trunFirstFlags = 0x4
	trunDuration   = 0x100
	trunSize       = 0x200
	trunFlags      = 0x400
	trunComposite  = 0x800

	sampleNonSync   = 0x1 << 16
	sampleDependsOn = 0x3 << 24
	dependsOnOthers = 0x1 << 24
)

func isSync(flags uint32) bool {
	return flags&sampleNonSync == 0 && flags&sampleDependsOn != dependsOnOthers
}

func parseTfhd(b []byte, def defaults) (_ defaults, from base, err error) {
	flags := binary.BigEndian.Uint32(b) & 0xffffff
	from.moof = flags&tfhdBaseIsMoof != 0
	b = b[8:]
	next := func(n int) []byte {
		if len(b) < n {
			err = errors.New("tfhd: short")
			return make([]byte, n)
		}
		v := b[:n]
		b = b[n:]
		return v
	}
	if flags&tfhdBaseDataOffset != 0 {
		from = base{absolute: true, at: binary.BigEndian.Uint64(next(8))}
	}
	if flags&tfhdDescription != 0 {
		next(4)
	}
	for _, field := range []struct {
		flag  uint32
		value *uint32
	}{{tfhdDuration, &def.duration}, {tfhdSize, &def.size}, {tfhdFlags, &def.flags}} {
		if flags&field.flag != 0 {
			*field.value = binary.BigEndian.Uint32(next(4))
		}
	}
	return def, from, err
}

func parseTfdt(b []byte) (uint64, error) {
	switch {
	case len(b) >= 8 && b[0] == 0:
		return uint64(binary.BigEndian.Uint32(b[4:])), nil
	case len(b) >= 12 && b[0] == 1:
		return binary.BigEndian.Uint64(b[4:]), nil
	}
	return 0, errors.New("traf: no tfdt box: the decode time is not known")
}

// addRun adds the samples of one trun box.
func (f *fragment) addRun(b []byte, def defaults) error {
	if len(b) < 8 {
		return errors.New("trun: short")
	}
	if len(f.runs) >= maxRuns {
		return fmt.Errorf("more than %d trun boxes", maxRuns)
	}
	flags, count := binary.BigEndian.Uint32(b)&0xffffff, int(binary.BigEndian.Uint32(b[4:]))
	b = b[8:]
	if len(b) < 4*bits.OnesCount32(flags&(trunDataOffset|trunFirstFlags)) {
		return errors.New("trun: short")
	}
	var r run
	if flags&trunDataOffset != 0 {
		r = run{stated: true, offset: int32(binary.BigEndian.Uint32(b))}
		b = b[4:]
	}
	first := def.flags
	if flags&trunFirstFlags != 0 {
		first, b = binary.BigEndian.Uint32(b), b[4:]
	}
	at := sampleLayout(flags)
	if count > maxSamples-f.samples || count*at.end > len(b) {
		return fmt.Errorf("trun: %d samples claimed in %d bytes", count, len(b))
	}
	if flags&trunFlags != 0 && count > 0 {
		first = binary.BigEndian.Uint32(b[at.flags:])
	}
	if f.samples == 0 && count > 0 {
		f.sync = isSync(first)
	}
	f.samples += count
	f.duration += total(b, count, at.end, at.duration, flags&trunDuration != 0, def.duration)
	r.bytes = total(b, count, at.end, at.size, flags&trunSize != 0, def.size)
	r.count, r.table, r.layout, r.fields, r.def, r.first = count, b, at, flags, def, first
	f.runs = append(f.runs, r)
	return nil
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

// total adds up one field of count samples of stride bytes each, or its default if the samples do not have it.
func total(b []byte, count, stride, at int, present bool, def uint32) (sum uint64) {
	if !present {
		return uint64(count) * uint64(def)
	}
	for i := range count {
		sum += uint64(binary.BigEndian.Uint32(b[i*stride+at:]))
	}
	return sum
}

// layout has the positions of the fields in one sample of a trun box.
type layout struct{ duration, size, flags, composite, end int }

func sampleLayout(flags uint32) (l layout) {
	for _, field := range []struct {
		flag uint32
		at   *int
	}{{trunDuration, &l.duration}, {trunSize, &l.size}, {trunFlags, &l.flags}, {trunComposite, &l.composite}} {
		if flags&field.flag != 0 {
			*field.at = l.end
			l.end += 4
		}
	}
	return l
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
