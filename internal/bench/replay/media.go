package replay

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/bench/pathprofile"
	"sluice/internal/bench/video"
)

// Mock returns mock media: video with a subgroup for each layer, and audio. It has no path.
func Mock(length time.Duration) *Trace {
	m := video.Mock{Layers: true}.WithDefaults()
	from, to := video.DueBetween(m, 0, length)
	return Media(m, from, to)
}

// Media returns the frames [from, to) of mock video, and the audio beside them. It has no path.
func Media(m video.Mock, from, to uint64) *Trace {
	tracks := []Track{{Name: "video", Priority: 128}, {Name: "audio", Audio: true, Priority: 128}}
	begin := m.Frame(from).Due
	first, end := video.DueBetween(video.Audio, begin, m.Frame(to).Due)
	t := &Trace{Title: "mock", Tracks: tracks}
	t.Objects = append(objects(0, m, from, to, begin), objects(1, video.Audio, first, end, begin)...)
	slices.SortStableFunc(t.Objects, func(a, b Object) int { return cmp.Compare(a.At, b.At) })
	return t
}

// objects returns the frames [from, to) of a track, at times since begin.
func objects(track int, m video.Mock, from, to uint64, begin time.Duration) (all []Object) {
	for n := from; n < to; n++ {
		f := m.Frame(n)
		o := Object{
			At: Seconds(f.Due - begin), Track: track, Group: f.Group, Subgroup: uint64(f.Layer), ID: f.Object,
			Priority: f.Priority, Size: m.Size(n), Key: f.Object == 0 && !m.Audio,
		}
		if on, ok := m.DependsOn(n); ok && on >= from {
			needs := m.Frame(on).Object
			o.Needs = &needs
		}
		all = append(all, o)
	}
	return all
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
