// Package playback tells what a viewer would have seen and heard, from when frames arrived.
//
// A player shows each frame [Playout] after it was due. A frame that arrives later, or needs one that did, is not
// shown. The benchmark and the replay of traces use the same rules.
package playback

import (
	"math"
	"slices"
	"time"

	"sluice/lab/bench/result"
)

const (
	// Playout is how long after it was due a player shows a frame. A frame that arrives later is late.
	Playout = time.Second
	// stallAfter is how long a player shows no new picture before a viewer notices.
	stallAfter = 200 * time.Millisecond
	// goodputBin is the time that a value of the goodput over time covers.
	goodputBin = 500 * time.Millisecond
)

// Kind is the kind of a frame.
type Kind uint8

// Kinds of frames.
const (
	Picture Kind = iota // a video frame, other than a key frame
	Key                 // a key frame
	Audio
)

// never is when something arrives that does not.
const never = time.Duration(math.MaxInt64)

// Frame is a frame of a broadcast, and its fate. Times are since the first one was due.
type Frame struct {
	Kind  Kind
	Due   time.Duration
	Needs int // index of the frame that it refers to; -1: none, or one before the first
	Bytes int

	// Rendition is the rank of a picture's rendition, and Fitting the rank of the best rendition that fits the path, or
	// Unsettled while that is unknown. All are 0 if there is only one.
	Rendition, Fitting int

	Arrived   bool
	Published time.Duration // when it was published, and when it arrived, if it did
	At        time.Duration
}

// Unsettled says that the path has changed a moment ago.
const Unsettled = -1

// inTime reports whether the frame arrived before a player would have shown it.
func (f *Frame) inTime() bool { return f.Arrived && f.At <= f.Due+Playout }

// Score tells how much a viewer would have seen and heard. Shares are of 1, and 0 if there are no such frames.
type Score struct {
	Goodput  float64 // Mbit/s that arrived in time
	Playable float64 // share of pictures that arrived in time, with all that they need
	Keys     float64 // share of key frames that arrived in time
	Audio    float64 // share of audio frames that arrived in time
	HasAudio bool
	Stalls   int
	Stalled  time.Duration
	Ages     []float64 // of pictures, from publication to arrival, milliseconds, sorted
	Usable   []float64 // the same until all that they need had arrived, too; without pictures that lack some of it

	// Of several renditions, once it is known which one fits: the share of pictures that were shown in that one or a
	// better one, and how often the rendition changed.
	Settled  bool // it was ever known
	Fit      float64
	Switches int

	GoodputOverTime, AgeOverTime result.Series
}

// Play plays the frames of a period. Pictures are in the order of Due. A frame comes after the frame that it needs.
func Play(frames []Frame, period time.Duration) (s Score) {
	if len(frames) == 0 || period <= 0 {
		return s
	}
	shown := make([]bool, len(frames))
	usable := make([]time.Duration, len(frames)) // when each had arrived with all that it needs
	bins := make([]float64, (period+goodputBin-1)/goodputBin)
	var total, good [Audio + 1]int
	for i := range frames {
		f := &frames[i]
		total[f.Kind]++
		if usable[i] = f.At; !f.Arrived {
			usable[i] = never
		}
		if f.Needs >= 0 {
			usable[i] = max(usable[i], usable[f.Needs])
		}
		if f.Arrived && f.Kind != Audio {
			age := (f.At - f.Published).Seconds() * 1e3
			s.Ages = append(s.Ages, age)
			s.AgeOverTime.Add(f.Due.Seconds(), age)
		}
		if usable[i] != never && f.Kind != Audio {
			s.Usable = append(s.Usable, (usable[i]-f.Published).Seconds()*1e3)
		}
		if !f.inTime() {
			continue
		}
		bins[min(int(f.Due/goodputBin), len(bins)-1)] += float64(f.Bytes) * 8 / 1e6
		if shown[i] = f.Needs < 0 || shown[f.Needs]; shown[i] {
			good[f.Kind]++
		}
	}
	slices.Sort(s.Ages)
	slices.Sort(s.Usable)
	s.Playable = share(good[Picture]+good[Key], total[Picture]+total[Key])
	s.Keys, s.Audio = share(good[Key], total[Key]), share(good[Audio], total[Audio])
	s.HasAudio = total[Audio] > 0
	s.addGoodput(bins, period)
	s.addStalls(frames, shown, period)
	s.addRenditions(frames, shown)
	return s
}

// addRenditions scores the renditions.
func (s *Score) addRenditions(frames []Frame, shown []bool) {
	fit, settled, before, several := 0, 0, 0, false
	for i, f := range frames {
		if f.Kind == Audio {
			continue
		}
		several = several || f.Rendition != 0 || f.Fitting != 0
		if f.Fitting != Unsettled {
			if settled++; shown[i] && f.Rendition >= f.Fitting {
				fit++
			}
			if settled > 1 && f.Rendition != before {
				s.Switches++
			}
		}
		before = f.Rendition
	}
	s.Settled, s.Fit = several && settled > 0, share(fit, settled)
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

func (s *Score) addGoodput(bins []float64, period time.Duration) {
	for i, mbit := range bins {
		begin := time.Duration(i) * goodputBin
		s.Goodput += mbit / period.Seconds()
		s.GoodputOverTime.Add(begin.Seconds(), mbit/min(goodputBin, period-begin).Seconds())
	}
}

// addStalls counts the times without a new picture. A picture that is missing is missed from when it was due.
func (s *Score) addStalls(frames []Frame, shown []bool, period time.Duration) {
	missing, since, last := 0, time.Duration(0), time.Duration(0)
	end := func(now time.Duration) {
		if gap := now - last; missing > 0 && gap > stallAfter {
			s.Stalls++
			s.Stalled += now - since
		}
		missing = 0
	}
	for i, f := range frames {
		switch {
		case f.Kind == Audio:
		case shown[i]:
			end(f.Due)
			last = f.Due
		default:
			if missing++; missing == 1 {
				since = f.Due
			}
		}
	}
	end(period)
}

// AddTo adds the score to the metrics and the series of a run.
func (s *Score) AddTo(r *result.Run) {
	m := r.Metrics
	m["goodput"], m["playable"], m["keys"] = s.Goodput, 100*s.Playable, 100*s.Keys
	if s.HasAudio {
		m["audio"] = 100 * s.Audio
	}
	if s.Settled {
		m["fit"], m["switches"] = 100*s.Fit, float64(s.Switches)
	}
	m["stalls"], m["stalled"] = float64(s.Stalls), s.Stalled.Seconds()
	result.AddQuantiles(m, Age, s.Ages)
	if len(s.Usable) > 0 {
		m["usable"] = result.Quantile(s.Usable, .9)
	}
	r.Series["goodput"], r.Series[Age] = s.GoodputOverTime, s.AgeOverTime
}
