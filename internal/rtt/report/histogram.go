package report

import (
	"math"
	"time"

	"sluice/internal/rtt/bpf"
)

// Bins is the largest number of bins of a Histogram.
const Bins = len(bpf.MonitorRttPeriod{}.Bins)

// Histogram is the distribution of some RTTs.
type Histogram struct {
	Count    uint64
	Min, Max time.Duration
	Sum      time.Duration
	Width    time.Duration // of a bin
	Bins     []uint64      // number Bins-1 also holds all longer RTTs; empty ones at the end may be left out
}

// Mean returns the mean, or 0 without RTTs.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Quantile estimates a quantile, from 0 to 1, as if the RTTs of each bin were spread evenly over it.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := q * float64(h.Count)
	var below float64
	for i, n := range h.Bins {
		if n > 0 && below+float64(n) >= rank {
			low, high := h.bounds(i)
			return low + time.Duration(math.Round(float64(high-low)*max(0, rank-below)/float64(n)))
		}
		below += float64(n)
	}
	return h.Max
}

// bounds returns the bounds of the used part of a bin: no RTT is below Min or above Max.
func (h *Histogram) bounds(bin int) (low, high time.Duration) {
	low, high = time.Duration(bin)*h.Width, time.Duration(bin+1)*h.Width
	if bin == Bins-1 {
		high = h.Max
	}
	return max(low, h.Min), max(min(high, h.Max), low)
}

// Add adds the RTTs of another histogram with bins of the same width.
func (h *Histogram) Add(o *Histogram) {
	if o.Count == 0 {
		return
	}
	if h.Count == 0 || o.Min < h.Min {
		h.Min = o.Min
	}
	h.Max = max(h.Max, o.Max)
	h.Count += o.Count
	h.Sum += o.Sum
	h.Width = o.Width
	if short := len(o.Bins) - len(h.Bins); short > 0 {
		h.Bins = append(h.Bins, make([]uint64, short)...)
	}
	for i, n := range o.Bins {
		h.Bins[i] += n
	}
}
