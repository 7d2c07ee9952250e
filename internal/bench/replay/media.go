package replay

import (
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
	tracks := []Track{{Name: "audio", Audio: true, Priority: 128}, {Name: "video", Priority: 128}}
	t := &Trace{Title: "mock", Tracks: tracks}
	audio := uint64(0)
	for n := uint64(0); m.Frame(n).Due < length; n++ {
		f := m.Frame(n)
		for ; time.Duration(audio)*audioInterval <= f.Due; audio++ {
			t.Objects = append(t.Objects, Object{
				At: Seconds(time.Duration(audio) * audioInterval), Group: audio / audioGroup, ID: audio % audioGroup,
				Priority: audioPriority, Size: audioSize,
			})
		}
		o := Object{
			At: Seconds(f.Due), Track: 1, Group: f.Group, Subgroup: uint64(f.Layer), ID: f.Object,
			Priority: video.Priority(f.Layer), Size: m.Size(n), Key: f.Object == 0,
		}
		if on, ok := m.DependsOn(n); ok {
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
