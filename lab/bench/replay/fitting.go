package replay

import (
	"time"

	"sluice/lab/bench/playback"
)

const (
	// FittingStep is how often it is computed which rendition fits the path.
	FittingStep = 100 * time.Millisecond
	// fittingWindow is over how much time the rate of the path counts for that, half of it before and half after.
	fittingWindow = 10 * time.Second
	// settling is how long a viewer has to find the rendition that fits, once another one does.
	settling = 15 * time.Second
	// overPackets is the overhead of packets over media.
	overPackets = 1.05
)

// Fitting returns for each step the best rendition that fits the path beside all other tracks, as its rank by bitrate,
// or playback.Unsettled while that is new.
func (t *Trace) Fitting() (steps []int) {
	before, since := -1, time.Duration(0)
	other := t.otherRate()
	for at := time.Duration(0); at <= t.Length(); at += FittingStep {
		rate := t.meanRate(at-fittingWindow/2, at+fittingWindow/2)
		best := 0
		for i, track := range t.renditions() {
			if (float64(t.Tracks[track].Bitrate)+other)*overPackets <= rate {
				best = i
			}
		}
		if best != before {
			before, since = best, at
		}
		if at-since < settling {
			best = playback.Unsettled
		}
		steps = append(steps, best)
	}
	return steps
}

// otherRate returns the rate of the tracks that are not renditions (audio, for one), in bit/s.
func (t *Trace) otherRate() float64 {
	bytes := 0
	for _, o := range t.Objects {
		if t.Tracks[o.Track].Bitrate == 0 {
			bytes += o.Size
		}
	}
	return float64(bytes) * 8 / t.Length().Seconds()
}

// meanRate returns the mean rate of the path between two times, as far as the trace has them, bit/s.
func (t *Trace) meanRate(from, to time.Duration) float64 {
	from, to = max(from, 0), min(to, t.Length())
	sum := 0.
	for i, c := range t.Path {
		end := to
		if i+1 < len(t.Path) {
			end = min(end, t.Path[i+1].At)
		}
		if d := end - max(from, c.At); d > 0 {
			sum += float64(c.Rate) * d.Seconds()
		}
	}
	return sum / (to - from).Seconds()
}
