package video

import (
	"time"

	"sluice/lab/bench/playback"
)

// Play replays the arrivals of frames [from, to) of a broadcast of mock video, and of its audio. If audio is nil, there
// is none. fitting returns the rank of the best rendition that fits the path, by the time since frame from; nil: there
// is only one.
func Play(m Mock, arrivals, audio []Arrival, from, to uint64, fitting func(time.Duration) int) playback.Score {
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
