package video

import (
	"cmp"
	"errors"
	"time"

	"sluice/internal/bounds"
	"sluice/lab/bench/playback"
	"sluice/moqt"
)

// Mock describes mock video: groups that begin with a key frame. The zero value with its defaults is 2 Mbit/s at 25
// frames a second, in groups of 2 s, with key frames of five times the size of other frames and one subgroup a group.
type Mock struct {
	Rate      float64 `json:"rate"`      // payload bits a second; default: 2e6
	FrameRate float64 `json:"frameRate"` // default: 25
	Group     int     `json:"group"`     // frames of a group; default: 50
	Key       float64 `json:"key"`       // size of a key frame, in other frames; default: 5
	// Layers gives key frames and three temporal layers a subgroup each, with falling priority.
	Layers bool `json:"layers"`
	// Audio makes all frames audio, which goes before video.
	Audio bool `json:"audio"`
}

// Audio is mock audio: AAC frames of 1,024 samples at 48 kHz, 96 kbit/s.
var Audio = Mock{Rate: 96e3, FrameRate: 48000. / 1024, Group: 47, Key: 1, Audio: true}

// WithDefaults returns m with defaults in place of zero values.
func (m Mock) WithDefaults() Mock {
	m.Rate, m.FrameRate = cmp.Or(m.Rate, 2e6), cmp.Or(m.FrameRate, 25)
	m.Group, m.Key = cmp.Or(m.Group, 50), cmp.Or(m.Key, 5)
	return m
}

// Validate returns an error if the rate makes frames too small or too large.
func (m Mock) Validate() error {
	return errors.Join(
		bounds.Check("mock video: bytes of a frame", m.Size(1), payloadMinimum, maxPayload),
		bounds.Check("mock video: bytes of a key frame", m.Size(0), payloadMinimum, maxPayload))
}

// Interval returns the time between two frames.
func (m Mock) Interval() time.Duration { return time.Duration(float64(time.Second) / m.FrameRate) }

// Frame describes the n-th frame of the broadcast, counted from 0.
func (m Mock) Frame(n uint64) Frame {
	at := moqt.Location{Group: n / uint64(m.Group), Object: n % uint64(m.Group)}
	f := Frame{Location: at, Layer: m.layer(at.Object), Due: time.Duration(n) * m.Interval(), Priority: audioPriority}
	if !m.Audio {
		f.Priority = priority(f.Layer)
	}
	return f
}

// Ladder returns renditions of the video by bitrate, in ascending order: m is the last one. Their frames are due at the
// same times.
func (m Mock) Ladder() []Mock {
	all := []Mock{m, m, m}
	all[0].Rate /= 5
	all[1].Rate /= 2
	return all
}

// Size returns the bytes of the n-th frame.
func (m Mock) Size(n uint64) int {
	group := m.Rate / 8 / m.FrameRate * float64(m.Group)
	delta := group / (float64(m.Group) - 1 + m.Key)
	if n%uint64(m.Group) == 0 {
		return int(delta * m.Key)
	}
	return int(delta)
}

// Payload returns the content of the n-th frame.
func (m Mock) Payload(n uint64, published time.Time) []byte {
	size := m.Size(n)
	return appendPayload(make([]byte, 0, size), n, published, size)
}

// ErrElsewhere means that an intact object arrived in the place of another one.
var ErrElsewhere = errors.New("the object belongs elsewhere")

// Verify returns when the object at a location was published, or an error if its content does not belong there.
func (m Mock) Verify(at moqt.Location, d *Digest) (time.Time, error) {
	n, published, err := d.mock()
	if err == nil && n != at.Group*uint64(m.Group)+at.Object {
		err = ErrElsewhere
	}
	return published, err
}

// Layers of mock video, each a subgroup.
const (
	LayerKey    = iota // key frames; all frames, if there are no layers
	LayerBase          // every fourth frame
	LayerMiddle        // the middle between two of those
	LayerTop           // the others
	Layers
)

func (m Mock) layer(object uint64) int {
	switch {
	case !m.Layers || object == 0:
		return LayerKey
	case object%4 == 0:
		return LayerBase
	case object%2 == 0:
		return LayerMiddle
	}
	return LayerTop
}

// DependsOn returns the frame that the n-th one depends on directly, which is the frame before it in its own layer or
// in the layer below. ok is false if there is none.
func (m Mock) DependsOn(n uint64) (on uint64, ok bool) {
	object := n % uint64(m.Group)
	switch m.layer(object) {
	case LayerBase:
		return n - 4, true
	case LayerMiddle:
		return n - 2, true
	case LayerTop:
		return n - 1, true
	}
	return n - 1, object > 0 && !m.Audio // without layers
}

const audioPriority = 32

// priority returns the Publisher Priority of a layer of video (draft §7): 0 is the most urgent.
func priority(layer int) uint8 { return uint8(64 + 32*layer) }

// addRenditions sets the renditions of frames. Frames of a group that has not arrived count like the group before.
func (m Mock) addRenditions(frames []playback.Frame, arrivals []Arrival, from uint64, fitting func(time.Duration) int) {
	ranks := make(map[uint64]int) // by group
	for _, a := range arrivals {
		ranks[a.Group] = a.Rendition
	}
	rank := len(m.Ladder()) - 1
	for i := range frames {
		if r, ok := ranks[m.Frame(from+uint64(i)).Group]; ok {
			rank = r
		}
		frames[i].Rendition, frames[i].Fitting = rank, fitting(frames[i].Due)
	}
}

// arrived returns frames [from, to) and when they have arrived.
func (m Mock) arrived(arrivals []Arrival, from, to uint64) []playback.Frame {
	frames := m.frames(from, to)
	origin := publicationOfFirst(m, arrivals) + int64(m.Frame(from).Due)
	for _, a := range arrivals {
		if n := a.Group*uint64(m.Group) + a.Object; n >= from && n < to {
			f := &frames[n-from]
			f.Arrived, f.Bytes = true, a.Bytes
			f.Published, f.At = time.Duration(a.Published-origin), time.Duration(a.Arrived-origin)
		}
	}
	return frames
}

// frames returns the frames [from, to) as a player knows them.
func (m Mock) frames(from, to uint64) []playback.Frame {
	frames := make([]playback.Frame, 0, to-from)
	for n := from; n < to; n++ {
		f := playback.Frame{Due: m.Frame(n).Due - m.Frame(from).Due, Needs: -1, Bytes: m.Size(n)}
		switch {
		case m.Audio:
			f.Kind = playback.Audio
		case m.Frame(n).Object == 0:
			f.Kind = playback.Key
		}
		if on, ok := m.DependsOn(n); ok && on >= from {
			f.Needs = int(on - from)
		}
		frames = append(frames, f)
	}
	return frames
}
