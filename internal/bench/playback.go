package bench

import (
	"slices"
	"sort"
	"time"
)

const (
	// playout is how long after its publication a player shows a frame. What comes later is late.
	playout = time.Second
	// stallAfter is how long a player shows no new frame before a viewer notices.
	stallAfter = 200 * time.Millisecond
	// goodputBin is the time that a value of the goodput over time covers.
	goodputBin = 500 * time.Millisecond
)

// playback is how a broadcast of mock video with layers would have been seen.
type playback struct {
	goodput        float64 // Mbit/s of payload that came in time
	playable, keys float64 // shares of all frames, and of all key frames, that came in time with all that they depend on
	stalls         int
	stalled        time.Duration
	ages           []float64 // from publication to arrival, milliseconds, sorted
	goodputs, age  Series
}

// play replays the arrivals of frames [from, to) of a broadcast.
func play(m Mock, arrivals []Arrival, from, to uint64) (p playback) {
	if from >= to {
		return p
	}
	origin := publicationOfFirst(m, arrivals)
	period := time.Duration(to-from) * m.interval()
	bins := make([]float64, (period+goodputBin-1)/goodputBin)
	shown := make(map[uint64]bool)
	for _, a := range arrivals {
		n := a.Group*uint64(m.Group) + a.Object
		if n < from || n >= to {
			continue
		}
		since := m.frame(n).due - m.frame(from).due
		p.add(since, a)
		if a.Arrived <= origin+int64(m.frame(n).due+playout) {
			shown[n] = true
			bins[since/goodputBin] += float64(a.Bytes) * 8 / 1e6
		}
	}
	p.sort()
	p.show(m, shown, from, to)
	for i, mbit := range bins {
		begin := time.Duration(i) * goodputBin
		p.goodput += mbit / period.Seconds()
		p.goodputs.Time = append(p.goodputs.Time, begin.Seconds())
		p.goodputs.Value = append(p.goodputs.Value, mbit/min(goodputBin, period-begin).Seconds())
	}
	return p
}

// add takes the age of a frame.
func (p *playback) add(since time.Duration, a Arrival) {
	age := float64(a.Arrived-a.Published) / 1e6
	p.ages = append(p.ages, age)
	p.age.Time = append(p.age.Time, since.Seconds())
	p.age.Value = append(p.age.Value, age)
}

// sort puts ages into order: in itself, and over time, in which frames do not arrive.
func (p *playback) sort() {
	slices.Sort(p.ages)
	sort.Sort(byTime(p.age))
}

// show counts what can be shown of the frames that are there in time.
func (p *playback) show(m Mock, inTime map[uint64]bool, from, to uint64) {
	last := int64(from) - 1 // frame that was shown last
	keys, keysShown, shown := 0, 0, 0
	for n := from; n < to; n++ {
		on, depends := m.dependsOn(n)
		inTime[n] = inTime[n] && (!depends || on < from || inTime[on])
		key := m.frame(n).at.Object == 0
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
	p.playable = float64(shown) / float64(to-from)
	if keys > 0 {
		p.keys = float64(keysShown) / float64(keys)
	}
}

// gap counts the time between two frames that were shown one after the other, if it is a stall.
func (p *playback) gap(m Mock, last, next int64) {
	if missing := time.Duration(next-last-1) * m.interval(); missing+m.interval() > stallAfter {
		p.stalls++
		p.stalled += missing
	}
}

// publicationOfFirst returns when the first frame was published or would have been, had none been late (Unix, ns).
func publicationOfFirst(m Mock, arrivals []Arrival) int64 {
	first := int64(0)
	for i, a := range arrivals {
		if at := a.Published - int64(m.frame(a.Group*uint64(m.Group)+a.Object).due); i == 0 || at < first {
			first = at
		}
	}
	return first
}

// expectedBetween returns the frames that are due in a period of a broadcast.
func expectedBetween(m Mock, from, to time.Duration) (first, end uint64) {
	return uint64((from + m.interval() - 1) / m.interval()), uint64((to + m.interval() - 1) / m.interval())
}

// byTime sorts a series.
type byTime Series

func (s byTime) Len() int           { return len(s.Time) }
func (s byTime) Less(i, j int) bool { return s.Time[i] < s.Time[j] }
func (s byTime) Swap(i, j int) {
	s.Time[i], s.Time[j] = s.Time[j], s.Time[i]
	s.Value[i], s.Value[j] = s.Value[j], s.Value[i]
}
