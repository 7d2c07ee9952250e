package report

import (
	"math"
	"time"

	"sluice/rtt/bpf"
)

// Largest numbers of bins of a Histogram.
const (
	LinearBins      = int(bpf.MonitorBinsLINEAR_BINS)
	LogarithmicBins = int(bpf.MonitorBinsBINS)
)

// Histogram is the distribution of some RTTs. Its bins have one width, or are logarithmic. Histograms with bins of the
// same kind can be added without loss.
type Histogram struct {
	Count    uint64
	Min, Max time.Duration
	Sum      time.Duration
	Width    time.Duration // of a bin; 0: they are logarithmic
	Bins     []uint64      // the last possible one also holds all longer RTTs; empty ones at the end may be left out
}

// MaxBins returns how many bins a Histogram has whose bins have that width.
func MaxBins(width time.Duration) int {
	if width == 0 {
		return LogarithmicBins
	}
	return LinearBins
}

// Scale is the scale of a logarithmic Histogram, as OTLP's exponential histograms call it, or the schema, as
// Prometheus's native histograms do: bins end at powers of 2^(2^-Scale) seconds.
const Scale = 5

// FirstPower is the power at which bin 1 of a logarithmic Histogram begins, of 2^(2^-Scale) seconds. Bin 0 holds all
// that is shorter.
const FirstPower = int(bpf.MonitorBinsFIRST_DOUBLING) * int(bpf.MonitorBinsBINS_PER_DOUBLING)

// End returns the end of a bin in seconds. The last one has no end but this.
func (h *Histogram) End(bin int) float64 {
	if h.Width == 0 {
		return math.Exp2(float64(FirstPower+bin) / float64(bpf.MonitorBinsBINS_PER_DOUBLING))
	}
	return (time.Duration(bin+1) * h.Width).Seconds()
}

// Mean returns the mean, or 0 without RTTs.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Quantile estimates a quantile, from 0 to 1. In logarithmic bins it is the middle of a bin, which is at most 1.1 % off
// where the bin has both ends. Other bins are taken as if their RTTs were spread evenly over them.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := q * float64(h.Count)
	var below float64
	for i, n := range h.Bins {
		if n > 0 && below+float64(n) >= rank {
			return h.within(i, max(0, rank-below)/float64(n))
		}
		below += float64(n)
	}
	return h.Max
}

// within returns the RTT that has a part of a bin's RTTs below it.
func (h *Histogram) within(bin int, part float64) time.Duration {
	low, high := h.bounds(bin)
	if h.Width == 0 && bin > 0 && bin < LogarithmicBins-1 {
		middle := math.Exp2(-0.5/float64(bpf.MonitorBinsBINS_PER_DOUBLING)) * h.End(bin)
		return min(max(seconds(middle), low), high)
	}
	return low + time.Duration(math.Round(float64(high-low)*part))
}

// bounds returns the bounds of the used part of a bin: no RTT is below Min or above Max.
func (h *Histogram) bounds(bin int) (low, high time.Duration) {
	if bin > 0 {
		low = seconds(h.End(bin - 1))
	}
	high = seconds(h.End(bin))
	if bin == MaxBins(h.Width)-1 {
		high = h.Max
	}
	return max(low, h.Min), max(min(high, h.Max), low)
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// Add adds the RTTs of another histogram with bins of the same width, or also with logarithmic ones.
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
