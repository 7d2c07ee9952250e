package rtt

import (
	"math"
	"time"

	"sluice/internal/rtt/bpf"
)

// Bins is the number of bins of a Histogram.
const Bins = len(bpf.MonitorRttPeriod{}.Bins)

// Histogram is the distribution of some RTTs.
type Histogram struct {
	Count    uint64
	Min, Max time.Duration
	Sum      time.Duration
	Width    time.Duration // of a bin
	Bins     []uint64      // the last one has all that are too large for it; empty ones at the end may be left out
}

// Mean is the mean, or 0 without RTTs.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Quantile estimates a quantile, from 0 to 1, taking the RTTs of each bin as evenly spread over it.
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

// bounds are those of a bin, as far as the least and the largest RTT show that it is used.
func (h *Histogram) bounds(bin int) (low, high time.Duration) {
	low, high = time.Duration(bin)*h.Width, time.Duration(bin+1)*h.Width
	if bin == Bins-1 {
		high = h.Max
	}
	return max(low, h.Min), max(min(high, h.Max), low)
}

// add adds the RTTs of another histogram with bins of the same width.
func (h *Histogram) add(o *Histogram) {
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

// cumulative counts the RTTs up to the upper bound of each bin, in seconds, for Prometheus. Bins that double in width
// are enough there. The last bin has no bound.
func (h *Histogram) cumulative() map[float64]uint64 {
	buckets := make(map[float64]uint64)
	var below uint64
	bin := 0
	for bound := 1; bound < Bins; bound *= 2 {
		for ; bin < min(bound, len(h.Bins)); bin++ {
			below += h.Bins[bin]
		}
		buckets[(time.Duration(bound) * h.Width).Seconds()] = below
	}
	return buckets
}

// newHistogram reads what the kernel counted.
func newHistogram(p *bpf.MonitorRttPeriod, width time.Duration) Histogram {
	h := Histogram{Width: width}
	if p.Count == 0 {
		return h
	}
	h.Count, h.Sum = uint64(p.Count), time.Duration(p.Sum)
	h.Min, h.Max = time.Duration(p.Min), time.Duration(p.Max)
	used := Bins
	for used > 0 && p.Bins[used-1] == 0 {
		used--
	}
	for _, n := range p.Bins[:used] {
		h.Bins = append(h.Bins, uint64(n))
	}
	return h
}
