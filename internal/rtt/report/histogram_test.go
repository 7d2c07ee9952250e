package report

import (
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
		bin := min(int(d/width), Bins-1)
		h.Bins = append(h.Bins, make([]uint64, max(0, bin+1-len(h.Bins)))...)
		h.Bins[bin]++
	}
	return h
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
	require.Len(t, beyond.Bins, Bins)
	require.Equal(t, 4*time.Second, beyond.Quantile(0.5))

	var none Histogram
	require.Zero(t, none.Quantile(0.5))
	require.Zero(t, none.Mean())
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
