package report

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// histogramOf returns the histogram of some RTTs.
func histogramOf(width time.Duration, rtts ...time.Duration) Histogram {
	h := Histogram{Width: width}
	for _, d := range rtts {
		if h.Count == 0 || d < h.Min {
			h.Min = d
		}
		h.Max = max(h.Max, d)
		h.Sum += d
		h.Count++
		bin := binOf(width, d)
		h.Bins = append(h.Bins, make([]uint64, max(0, bin+1-len(h.Bins)))...)
		h.Bins[bin]++
	}
	return h
}

// binOf returns the bin of an RTT.
func binOf(width, rtt time.Duration) int {
	if width > 0 {
		return min(int(rtt/width), LinearBins-1)
	}
	power := int(math.Floor(math.Log2(rtt.Seconds()) * (1 << Scale)))
	return min(max(power-FirstPower+1, 0), LogarithmicBins-1)
}

func TestHistogramQuantiles(t *testing.T) {
	var even []time.Duration
	for i := range 1000 {
		even = append(even, time.Duration(i)*time.Millisecond/2)
	}
	h := histogramOf(4*time.Millisecond, even...)
	for q, want := range map[float64]time.Duration{0: 0, 0.25: 125e6, 0.5: 250e6, 0.95: 475e6, 1: 499.5e6} {
		require.InDelta(t, want, h.Quantile(q), 1e6, "%v", q)
	}
	require.Equal(t, 249750*time.Microsecond, h.Mean())

	one := histogramOf(4*time.Millisecond, 7*time.Millisecond)
	require.Equal(t, 7*time.Millisecond, one.Quantile(0.5), "the least and the largest bound the bin")

	beyond := histogramOf(4*time.Millisecond, 3*time.Second, 5*time.Second)
	require.Len(t, beyond.Bins, LinearBins)
	require.Equal(t, 4*time.Second, beyond.Quantile(0.5))

	var none Histogram
	require.Zero(t, none.Quantile(0.5))
	require.Zero(t, none.Mean())
}

// Whatever the size of the RTTs, a quantile is at most 1.1 % off in logarithmic bins.
func TestLogarithmicQuantiles(t *testing.T) {
	for scale := 10 * time.Microsecond; scale < 5*time.Second; scale = scale * 3 / 2 {
		var rtts []time.Duration
		for i := range 1000 {
			rtts = append(rtts, scale+scale*time.Duration(i)/1000)
		}
		h := histogramOf(0, rtts...)
		for q, rtt := range map[float64]time.Duration{0.001: rtts[0], 0.5: rtts[499], 0.95: rtts[949], 1: rtts[999]} {
			require.InEpsilon(t, rtt, h.Quantile(q), 0.011, "%v of %v", q, scale)
		}
	}
	ends := histogramOf(0, 3*time.Microsecond, 5*time.Microsecond, 11*time.Second, 13*time.Second)
	require.Len(t, ends.Bins, LogarithmicBins)
	require.Equal(t, 5315*time.Nanosecond, ends.Quantile(0.25), "shorter ones share a bin")
	require.Equal(t, 13*time.Second, ends.Quantile(1), "longer ones share a bin")
}

func TestHistogramAdd(t *testing.T) {
	sum := histogramOf(time.Millisecond)
	for _, part := range []Histogram{
		histogramOf(time.Millisecond, 5*time.Millisecond), histogramOf(time.Millisecond),
		histogramOf(time.Millisecond, time.Millisecond, 9*time.Millisecond),
	} {
		sum.Add(&part)
	}
	require.Equal(t, histogramOf(time.Millisecond, 5*time.Millisecond, time.Millisecond, 9*time.Millisecond), sum)
}
