package replay

import (
	"cmp"
	"slices"
	"time"

	"sluice/lab/bench/video"
)

// Mock returns mock media: video with a subgroup for each layer, and audio. It has no path.
func Mock(length time.Duration) *Trace {
	return mediaOf(length, video.Mock{Layers: true}.WithDefaults())
}

// Ladder returns mock media with three renditions of the video, and audio. It has no path.
func Ladder(length time.Duration) *Trace {
	return LadderOf(video.Mock{Layers: true}.WithDefaults(), length)
}

// LadderOf returns the renditions of mock video, and audio. It has no path.
func LadderOf(best video.Mock, length time.Duration) *Trace {
	renditions := best.Ladder()
	slices.Reverse(renditions) // the order in which sluice pub lists them
	return mediaOf(length, renditions...)
}

// mediaOf returns video, maybe in several renditions, and audio.
func mediaOf(length time.Duration, renditions ...video.Mock) *Trace {
	t := new(Trace)
	for i, m := range renditions {
		t.bitrates = append(t.bitrates, m.Rate)
		t.add(i, m, length)
	}
	t.add(len(renditions), video.Audio, length)
	slices.SortStableFunc(t.Objects, func(a, b Object) int { return cmp.Compare(a.At, b.At) })
	return t
}

// add adds the frames of a track.
func (t *Trace) add(track int, m video.Mock, length time.Duration) {
	_, end := video.DueBetween(m, 0, length)
	for n := range end {
		f := m.Frame(n)
		o := Object{
			At: f.Due, Track: track, Group: f.Group, Subgroup: uint64(f.Layer), ID: f.Object, Priority: f.Priority,
			Size: m.Size(n),
		}
		if on, ok := m.DependsOn(n); ok {
			needs := m.Frame(on).Object
			o.Needs = &needs
		}
		t.Objects = append(t.Objects, o)
	}
	t.length = max(t.length, m.Frame(end).Due)
}
