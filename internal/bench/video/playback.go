package video

import (
	"time"

	"sluice/internal/bench/playback"
)

// Play replays the arrivals of frames [from, to) of a broadcast of mock video, and those of its audio. If audio is nil,
// there is none.
func Play(m Mock, arrivals, audio []Arrival, from, to uint64) playback.Score {
	return PlayLadder(m, arrivals, audio, from, to, nil)
}

// PlayLadder is Play for a video with several renditions. fitting returns the rank of the best one that fits the path,
// by the time since frame from; nil: there is only one.
func PlayLadder(
	m Mock, arrivals, audio []Arrival, from, to uint64, fitting func(time.Duration) int,
) playback.Score {
	if from >= to {
		return playback.Score{}
	}
	frames, period := m.arrived(arrivals, from, to), time.Duration(to-from)*m.Interval()
	if fitting != nil {
		m.addRenditions(frames, arrivals, from, fitting)
	}
	if audio != nil {
		begin := time.Duration(from) * m.Interval()
		first, end := DueBetween(Audio, begin, begin+period)
		frames = append(frames, Audio.arrived(audio, first, end)...)
	}
	return playback.Play(frames, period)
}

// addRenditions adds to frames which rendition they are of. Frames of a group of which nothing has arrived count as
// those before.
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

// publicationOfFirst returns when the first frame was published or would have been, had none been late (Unix, ns).
func publicationOfFirst(m Mock, arrivals []Arrival) int64 {
	first := int64(0)
	for i, a := range arrivals {
		if at := a.Published - int64(m.Frame(a.Group*uint64(m.Group)+a.Object).Due); i == 0 || at < first {
			first = at
		}
	}
	return first
}

// DueBetween returns the frames [first, end) that are due in a period of a broadcast.
func DueBetween(m Mock, from, to time.Duration) (first, end uint64) {
	return uint64((from + m.Interval() - 1) / m.Interval()), uint64((to + m.Interval() - 1) / m.Interval())
}
