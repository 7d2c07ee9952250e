package loc

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/Eyevinn/mp4ff/mp4"

	"sluice/player/catalog"
)

// Muxer makes CMAF of the frames of one track.
type Muxer struct {
	id    uint32
	track catalog.TrackEntry
	codec codec

	timescale uint64 // of frames that do not say theirs, and of the output; 0: not known
	ready     bool   // a frame with which decoding can start has come
	inBand    bool   // key frames have the parameter sets
	begun     bool
	next      int64 // decode time of the next frame if all have the same length
	last      int64 // decode time of the latest frame
	length    int64 // of a frame
	sequence  uint32
}

// NewMuxer returns a Muxer for a track of a catalog. id is the track ID in the output.
func NewMuxer(id uint32, track catalog.TrackEntry) (*Muxer, error) {
	c, err := newCodec(track)
	if err != nil {
		return nil, fmt.Errorf("track %s: %w", track.Name, err)
	}
	return &Muxer{id: id, track: track, codec: c, timescale: uint64(max(track.Timescale, 0))}, nil
}

// SetTimescale sets the timescale of frames that do not say theirs, unless it is 0 or a frame has been added.
func (m *Muxer) SetTimescale(timescale uint64) {
	if !m.ready {
		m.timescale = cmp.Or(timescale, m.timescale)
	}
}

// InBand makes all key frames from now on have the parameter sets of their codec, for a track that goes on after one
// with others.
func (m *Muxer) InBand() { m.inBand = true }

// Ready reports whether there is an init segment: Add has returned a sample.
func (m *Muxer) Ready() bool { return m.ready }

// Sample is a frame that is ready for the output. Times are in units of the output.
type Sample struct {
	decode, present int64
	length          int64
	key             bool
	payload         []byte
}

// Key reports whether decoding can start with the frame.
func (s Sample) Key() bool { return s.key }

// Add takes the next frame in decode order. It returns false for a frame that cannot be decoded: one that comes before
// the first key frame, or is malformed.
func (m *Muxer) Add(f Frame) (Sample, bool) {
	u, ok := m.codec.read(f)
	if !ok || !m.ready && !u.key {
		return Sample{}, false
	}
	if !m.ready {
		m.begin(f)
	}
	present := m.next
	if f.Timed {
		present = m.ticks(f.Timestamp, min(cmp.Or(f.Timescale, m.timescale), math.MaxUint32))
	}
	s := Sample{present: present, key: u.key, payload: u.payload}
	s.decode = m.decodeTime(u, present)
	m.step(&s)
	return s, true
}

// begin fixes the output's timescale at the first frame.
func (m *Muxer) begin(f Frame) {
	scale := cmp.Or(f.Timescale, m.timescale, microseconds)
	if scale > math.MaxUint32 {
		scale = microseconds
	}
	m.timescale, m.ready = scale, true
	m.length = int64(m.codec.frameLength() * float64(scale))
}

// decodeTime asks the codec, which counts in 90,000 per second. A frame that is not reordered keeps its exact time.
func (m *Muxer) decodeTime(u unit, present int64) int64 {
	clock := scaled(present, clockRate, int64(m.timescale))
	if at := m.codec.decodeTime(u, clock); at != clock {
		return scaled(at, int64(m.timescale), clockRate)
	}
	return present
}

// scaled returns t*to/from. It saturates where nobody would look: after 100,000 years.
func scaled(t, to, from int64) int64 {
	whole, rest := t/from, t%from
	if limit := math.MaxInt64 / 4 / to; whole > limit || whole < -limit {
		return math.MaxInt64 / 4
	}
	return whole*to + rest*to/from
}

// step makes decode times grow, and takes the length of a frame from its predecessor: the next one is not there yet.
func (m *Muxer) step(s *Sample) {
	if m.begun {
		s.decode = max(s.decode, m.last+1)
		if step := s.decode - m.last; step < 10*int64(m.timescale) { // more is a break in the source's timeline
			m.length = step
		}
	}
	m.begun, m.last, s.length = true, s.decode, max(m.length, 1)
	m.next = s.decode + s.length
}

// ticks converts a time to units of the output. Scales have at most 32 bits.
func (m *Muxer) ticks(t, scale uint64) int64 {
	return scaled(int64(min(t, math.MaxInt64)), int64(m.timescale), int64(scale))
}

// Time returns the decode time of a sample, and End the time at which it ends.
func (m *Muxer) Time(s Sample) time.Duration { return m.duration(s.decode) }

// End returns the time at which a sample ends, by decode time.
func (m *Muxer) End(s Sample) time.Duration { return m.duration(s.decode + s.length) }

func (m *Muxer) duration(ticks int64) time.Duration {
	return time.Duration(scaled(ticks, int64(time.Second), int64(m.timescale)))
}

// Init returns the init segment.
func (m *Muxer) Init() ([]byte, error) {
	out := mp4.CreateEmptyInit()
	out.AddEmptyTrack(uint32(m.timescale), m.codec.kind(), cmp.Or(m.track.Language, "und"))
	trak := out.Moov.Trak
	trak.Tkhd.TrackID, out.Moov.Mvex.Trex.TrackID, out.Moov.Mvhd.NextTrackID = m.id, m.id, m.id+1
	entry, err := m.codec.entry()
	if err != nil {
		return nil, fmt.Errorf("track %s: %w", m.track.Name, err)
	}
	if v, ok := entry.(*mp4.VisualSampleEntryBox); ok {
		trak.Tkhd.Width, trak.Tkhd.Height = mp4.Fixed32(v.Width)<<16, mp4.Fixed32(v.Height)<<16
	}
	trak.Mdia.Minf.Stbl.Stsd.AddChild(entry)
	var b bytes.Buffer
	err = out.Encode(&b)
	return b.Bytes(), err
}

// Chunk returns a sample as a chunk whose times are from start on.
func (m *Muxer) Chunk(s Sample, start time.Duration) ([]byte, error) {
	m.sequence++
	out, err := mp4.CreateFragment(m.sequence, m.id)
	if err != nil {
		return nil, err
	}
	flags := mp4.NonSyncSampleFlags
	if s.key {
		flags = mp4.SyncSampleFlags
	}
	if nal, ok := m.codec.(*nalCodec); ok && s.key && m.inBand {
		s.payload = append(nal.sets(), s.payload...)
	}
	base := scaled(int64(start), int64(m.timescale), int64(time.Second))
	// A track that starts a little before the first frame of the output starts with it.
	decode := max(s.decode-base, 0)
	offset := max(min(s.present-base-decode, math.MaxInt32), math.MinInt32)
	out.AddFullSample(mp4.FullSample{
		Sample:     mp4.NewSample(flags, uint32(min(s.length, math.MaxUint32)), uint32(len(s.payload)), int32(offset)),
		DecodeTime: uint64(decode), Data: s.payload,
	})
	var b bytes.Buffer
	err = out.Encode(&b)
	return b.Bytes(), err
}
