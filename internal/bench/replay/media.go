package replay

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/bench/pathprofile"
	"sluice/internal/bench/video"
)

// The audio of mock media: AAC frames of 1,024 samples at 48 kHz, 96 kbit/s.
const (
	audioInterval = 1024 * time.Second / 48000
	audioSize     = 256
	audioGroup    = 47 // frames: a second
	audioPriority = 32 // Publisher Priority, above that of all video
)

// Mock returns mock media: video with a subgroup for each layer, and audio. It has no path.
func Mock(length time.Duration) *Trace {
	m := video.Mock{Layers: true}.WithDefaults()
	_, end := video.DueBetween(m, 0, length)
	t := Video(m, 0, end)
	for n := uint64(0); time.Duration(n)*audioInterval < length; n++ {
		t.Objects = append(t.Objects, Object{
			At: Seconds(time.Duration(n) * audioInterval), Track: len(t.Tracks),
			Group: n / audioGroup, ID: n % audioGroup, Priority: audioPriority, Size: audioSize,
		})
	}
	t.Tracks = append(t.Tracks, Track{Name: "audio", Audio: true, Priority: 128})
	slices.SortStableFunc(t.Objects, func(a, b Object) int { return cmp.Compare(a.At, b.At) })
	return t
}

// Video returns the frames [from, to) of mock video. It has no path.
func Video(m video.Mock, from, to uint64) *Trace {
	t := &Trace{Title: "mock", Tracks: []Track{{Name: "video", Priority: 128}}}
	for n := from; n < to; n++ {
		f := m.Frame(n)
		o := Object{
			At: Seconds(f.Due - m.Frame(from).Due), Group: f.Group, Subgroup: uint64(f.Layer), ID: f.Object,
			Priority: video.Priority(f.Layer), Size: m.Size(n), Key: f.Object == 0,
		}
		if on, ok := m.DependsOn(n); ok && on >= from {
			needs := m.Frame(on).Object
			o.Needs = &needs
		}
		t.Objects = append(t.Objects, o)
	}
	return t
}

// On returns the trace with the path of a profile. Rates are parts of the rate of its media.
func (t *Trace) On(p pathprofile.Profile, seed uint64) *Trace {
	on, rate := *t, t.Rate()
	on.Path = nil
	for _, point := range p.Rates(t.Length(), seed) {
		on.Path = append(on.Path, Change{
			At: Seconds(point.At.Truncate(time.Microsecond)), Rate: int64(point.Rate * rate),
			Queue: max(int(rate/8*p.Queue.Seconds()), minQueue), RTT: Seconds(p.RTT), Loss: p.Loss, Bulk: p.Bulk,
		})
	}
	return &on
}
