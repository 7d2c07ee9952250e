package video

import (
	"slices"
	"sort"
	"time"

	"sluice/internal/bench/result"
)

const (
	// playout is how long after its publication a player shows a frame. A frame that arrives later is late.
	playout = time.Second
	// stallAfter is how long a player shows no new frame before a viewer notices.
	stallAfter = 200 * time.Millisecond
	// goodputBin is the time that a value of the goodput over time covers.
	goodputBin = 500 * time.Millisecond
)

// Playback is what a viewer would have seen of mock video with layers.
type Playback struct {
	Goodput        float64 // Mbit/s of payload that arrived in time
	Playable, Keys float64 // shares of frames and key frames that arrived in time, with all they depend on
	Stalls         int
	Stalled        time.Duration
	Ages           []float64 // from publication to arrival, milliseconds, sorted

	GoodputOverTime, AgeOverTime result.Series
}

// Play replays the arrivals of frames [from, to) of a broadcast.
func Play(m Mock, arrivals []Arrival, from, to uint64) (p Playback) {
	if from >= to {
		return p
	}
	origin := publicationOfFirst(m, arrivals)
	period := time.Duration(to-from) * m.Interval()
	bins := make([]float64, (period+goodputBin-1)/goodputBin)
	shown := make(map[uint64]bool)
	for _, a := range arrivals {
		n := a.Group*uint64(m.Group) + a.Object
		if n < from || n >= to {
			continue
		}
		since := m.Frame(n).Due - m.Frame(from).Due
		p.add(since, a)
		if a.Arrived <= origin+int64(m.Frame(n).Due+playout) {
			shown[n] = true
			bins[since/goodputBin] += float64(a.Bytes) * 8 / 1e6
		}
	}
	p.sort()
	p.show(m, shown, from, to)
	for i, mbit := range bins {
		begin := time.Duration(i) * goodputBin
		p.Goodput += mbit / period.Seconds()
		p.GoodputOverTime.Time = append(p.GoodputOverTime.Time, begin.Seconds())
		p.GoodputOverTime.Value = append(p.GoodputOverTime.Value, mbit/min(goodputBin, period-begin).Seconds())
	}
	return p
}

// add adds the age of a frame.
func (p *Playback) add(since time.Duration, a Arrival) {
	age := float64(a.Arrived-a.Published) / 1e6
	p.Ages = append(p.Ages, age)
	p.AgeOverTime.Time = append(p.AgeOverTime.Time, since.Seconds())
	p.AgeOverTime.Value = append(p.AgeOverTime.Value, age)
}

// sort sorts the ages by value, and the series of ages by time: frames do not arrive in the order of their times.
func (p *Playback) sort() {
	slices.Sort(p.Ages)
	sort.Sort(byTime(p.AgeOverTime))
}

// show counts the frames that can be shown, given the ones that arrived in time.
func (p *Playback) show(m Mock, inTime map[uint64]bool, from, to uint64) {
	last := int64(from) - 1 // frame that was shown last
	keys, keysShown, shown := 0, 0, 0
	for n := from; n < to; n++ {
		on, depends := m.dependsOn(n)
		inTime[n] = inTime[n] && (!depends || on < from || inTime[on])
		key := m.Frame(n).Object == 0
		if key {
			keys++
		}
		if !inTime[n] {
			continue
		}
		if key {
			keysShown++
		}
		shown++
		p.gap(m, last, int64(n))
		last = int64(n)
	}
	p.gap(m, last, int64(to))
	p.Playable = float64(shown) / float64(to-from)
	if keys > 0 {
		p.Keys = float64(keysShown) / float64(keys)
	}
}

// gap counts the time between two frames that were shown one after the other, if it is a stall.
func (p *Playback) gap(m Mock, last, next int64) {
	if missing := time.Duration(next-last-1) * m.Interval(); missing+m.Interval() > stallAfter {
		p.Stalls++
		p.Stalled += missing
	}
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

// byTime sorts a series.
type byTime result.Series

func (s byTime) Len() int           { return len(s.Time) }
func (s byTime) Less(i, j int) bool { return s.Time[i] < s.Time[j] }
func (s byTime) Swap(i, j int) {
	s.Time[i], s.Time[j] = s.Time[j], s.Time[i]
	s.Value[i], s.Value[j] = s.Value[j], s.Value[i]
}
