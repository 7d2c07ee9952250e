package rtt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/bpf"
)

// histogramOf is what the kernel makes of RTTs.
func histogramOf(width time.Duration, rtts ...time.Duration) Histogram {
	var p bpf.MonitorRttPeriod
	for _, d := range rtts {
		if p.Count == 0 || uint64(d) < p.Min {
			p.Min = uint64(d)
		}
		p.Max = max(p.Max, uint64(d))
		p.Sum += uint64(d)
		p.Count++
		p.Bins[min(int(d/width), Bins-1)]++
	}
	return newHistogram(&p, width)
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
	require.Equal(t, []uint64{0, 1}, one.Bins)

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
		sum.add(&part)
	}
	require.Equal(t, histogramOf(time.Millisecond, 5*time.Millisecond, time.Millisecond, 9*time.Millisecond), sum)
}

func TestHistogramBuckets(t *testing.T) {
	h := histogramOf(time.Millisecond, 0, 1500*time.Microsecond, 3*time.Millisecond, time.Second)
	require.Equal(t, map[float64]uint64{
		0.001: 1, 0.002: 2, 0.004: 3, 0.008: 3, 0.016: 3, 0.032: 3, 0.064: 3, 0.128: 3,
	}, h.cumulative(), "the last bin has no bound")
}
