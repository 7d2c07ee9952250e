package bench

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
	"sluice/lab/measure"
)

// delays are the delays that a relay added to frames, milliseconds, sorted.
type delays struct {
	first, last []float64 // of all subscribers
	jitter      []float64
	unmatched   float64 // share of all frames
	// firstOverTime and lastOverTime are the median over the subscribers, by when frames entered the relay.
	firstOverTime, lastOverTime result.Series
}

// measureDelays matches the packets that entered a relay with the packets that left it for each subscriber.
func measureDelays(m *trial.Measurement) (d delays) {
	bursts := measure.MatchBursts(m.Packets, trial.IntoRelay, trial.OutOfRelay)
	frames := make(map[time.Duration][]measure.BurstDelay) // by when they entered
	previous := make(map[netip.AddrPort]float64)
	for _, b := range bursts.Matched {
		first := milliseconds(b.First())
		d.first = append(d.first, first)
		d.last = append(d.last, milliseconds(b.Last()))
		if before, ok := previous[b.Target]; ok {
			d.jitter = append(d.jitter, max(first-before, before-first))
		}
		previous[b.Target] = first
		frames[b.In.First] = append(frames[b.In.First], b)
	}
	for _, in := range slices.Sorted(maps.Keys(frames)) {
		targets := frames[in]
		at := (in - m.Begin).Round(time.Millisecond).Seconds()
		d.firstOverTime.Add(at, median(targets, measure.BurstDelay.First))
		d.lastOverTime.Add(at, median(targets, measure.BurstDelay.Last))
	}
	if all := len(bursts.Matched) + bursts.Unmatched; all > 0 {
		d.unmatched = float64(bursts.Unmatched) / float64(all)
	}
	for _, values := range [][]float64{d.first, d.last, d.jitter} {
		slices.Sort(values)
	}
	return d
}

// median returns the median delay over the subscribers that a frame reached, rounded for storage.
func median(targets []measure.BurstDelay, of func(measure.BurstDelay) time.Duration) float64 {
	values := make([]float64, len(targets))
	for i, b := range targets {
		values[i] = milliseconds(of(b).Round(100 * time.Nanosecond))
	}
	return result.NewStatistic(values).Median
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
