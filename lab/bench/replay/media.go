package replay

import (
	"cmp"
	"slices"
	"time"

	"sluice/lab/bench/video"
)

// Mock returns mock media: video with a subgroup for each layer, and audio. It has no path.
func Mock(length time.Duration) *Trace {
	return mediaOf("mock", length, video.Mock{Layers: true}.WithDefaults())
}

// Ladder returns mock media with three renditions of the video, and audio. It has no path.
func Ladder(length time.Duration) *Trace {
	return LadderOf(video.Mock{Layers: true}.WithDefaults(), length)
}

// LadderOf returns the renditions of mock video, and audio. It has no path.
func LadderOf(best video.Mock, length time.Duration) *Trace {
	renditions := best.Ladder()
	slices.Reverse(renditions) // the order in which sluice pub lists them
	return mediaOf("mock ladder", length, renditions...)
}

// mediaOf returns video, maybe in several renditions, and audio.
func mediaOf(title string, length time.Duration, renditions ...video.Mock) *Trace {
	t := &Trace{Title: title}
	for i, m := range renditions {
		tr := Track{Priority: 128}
		if len(renditions) > 1 {
			tr.Bitrate = int(m.Rate)
		}
		t.Tracks, t.Objects = append(t.Tracks, tr), append(t.Objects, objects(i, m, length)...)
	}
	t.Tracks = append(t.Tracks, Track{Audio: true, Priority: 128})
	t.Objects = append(t.Objects, objects(len(renditions), video.Audio, length)...)
	slices.SortStableFunc(t.Objects, func(a, b Object) int { return cmp.Compare(a.At, b.At) })
	return t
}

// objects returns the frames of a track.
func objects(track int, m video.Mock, length time.Duration) (all []Object) {
	_, end := video.DueBetween(m, 0, length)
	for n := range end {
		f := m.Frame(n)
		o := Object{
			At: f.Due, Track: track, Group: f.Group, Subgroup: uint64(f.Layer), ID: f.Object,
			Priority: f.Priority, Size: m.Size(n), Key: f.Object == 0 && !m.Audio,
		}
		if on, ok := m.DependsOn(n); ok {
			needs := m.Frame(on).Object
			o.Needs = &needs
		}
		all = append(all, o)
	}
	return all
}
