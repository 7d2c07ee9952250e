package bench

import (
	"slices"
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
	if len(arrivals) == 0 || from >= to {
		return p
	}
	origin := publicationOfFirst(m, arrivals)
	arrived := make(map[uint64]Arrival)
	for _, a := range arrivals {
		arrived[a.Group*uint64(m.Group)+a.Object] = a
	}
	inTime := make(map[uint64]bool)
	bins := make([]float64, (time.Duration(to-from)*m.interval()+goodputBin-1)/goodputBin)
	keys, keysInTime, shown := 0, 0, 0
	last := from // frame that was shown last
	for n := from; n < to; n++ {
		f := m.frame(n)
		due := origin + int64(f.due+playout)
		a, ok := arrived[n]
		since := f.due - m.frame(from).due
		if ok {
			p.ages = append(p.ages, float64(a.Arrived-a.Published)/1e6)
			p.age.Time, p.age.Value = append(p.age.Time, since.Seconds()), append(p.age.Value, p.ages[len(p.ages)-1])
		}
		if ok && a.Arrived <= due {
			bins[since/goodputBin] += float64(a.Bytes) * 8 / 1e6
			on, depends := m.dependsOn(n)
			inTime[n] = !depends || on < from || inTime[on]
		}
		if f.at.Object == 0 {
			keys++
			if inTime[n] {
				keysInTime++
			}
		}
		if inTime[n] || n == to-1 {
			if gap := time.Duration(n-last) * m.interval(); gap > stallAfter {
				p.stalls++
				p.stalled += gap - m.interval()
			}
			last = n
		}
		if inTime[n] {
			shown++
		}
	}
	period := time.Duration(to-from) * m.interval()
	for i, mbit := range bins {
		p.goodput += mbit / period.Seconds()
		width := min(goodputBin, period-time.Duration(i)*goodputBin)
		p.goodputs.Time = append(p.goodputs.Time, (time.Duration(i) * goodputBin).Seconds())
		p.goodputs.Value = append(p.goodputs.Value, mbit/width.Seconds())
	}
	p.playable = float64(shown) / float64(to-from)
	if keys > 0 {
		p.keys = float64(keysInTime) / float64(keys)
	}
	slices.Sort(p.ages)
	return p
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
