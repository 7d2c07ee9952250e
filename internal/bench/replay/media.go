package replay

import (
	"cmp"
	"fmt"
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

// Ladder returns mock media with three renditions of the video, and audio. It has no path.
func Ladder(length time.Duration) *Trace {
	return LadderOf(video.Mock{Layers: true}.WithDefaults(), length)
}

// LadderOf returns the renditions of mock video, and audio. It has no path.
func LadderOf(best video.Mock, length time.Duration) *Trace {
	t := &Trace{Title: "mock ladder"}
	renditions := best.Ladder()
	slices.Reverse(renditions) // the order in which sluice pub lists them
	for i, m := range renditions {
		from, to := video.DueBetween(m, 0, length)
		t.Tracks = append(t.Tracks, Track{Name: fmt.Sprintf("video%d", i), Priority: 128, Bitrate: int(m.Rate)})
		t.Objects = append(t.Objects, objects(i, m, from, to, 0)...)
	}
	first, end := video.DueBetween(video.Audio, 0, length)
	t.Tracks = append(t.Tracks, Track{Name: "audio", Audio: true, Priority: 128})
	t.Objects = append(t.Objects, objects(len(t.Tracks)-1, video.Audio, first, end, 0)...)
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

// From returns the trace without the objects before a time, as somebody gets it who joins then. An object that refers
// to one of those counts as if it did not: players fetch the rest of the group. It has no path.
func (t *Trace) From(join time.Duration) *Trace {
	from := *t
	from.Path, from.Objects = nil, nil
	there := make(map[place]bool)
	for _, o := range t.Objects {
		if o.At < Seconds(join) {
			continue
		}
		o.At -= Seconds(join)
		if o.Needs != nil && !there[place{o.Track, o.Group, *o.Needs}] {
			o.Needs = nil
		}
		there[place{o.Track, o.Group, o.ID}] = true
		from.Objects = append(from.Objects, o)
	}
	return &from
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
