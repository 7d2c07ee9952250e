package result

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/measure"
)

// upTo returns 1, 2, … n.
func upTo(n int) (v []float64) {
	for i := range n {
		v = append(v, float64(i+1))
	}
	return v
}

func TestDistribution(t *testing.T) {
	values := upTo(10_000)
	slices.Reverse(values)
	d := NewDistribution(values)
	require.Equal(t, 10_000, d.Count)
	require.Len(t, d.Value, len(d.At))
	require.True(t, slices.IsSorted(d.At))
	for i, at := range d.At {
		require.InDelta(t, max(1, at*10_000), d.Value[i], 1e-9, "quantile %v", at) // 0 is the least value
	}
	require.Equal(t, 5000., d.Quantile(.5))
	require.Equal(t, 9990., d.Quantile(.999))
	require.Equal(t, 0., d.Quantile(.12345))
	require.Equal(t, Distribution{}, NewDistribution(nil))
	require.Equal(t, 0., Distribution{}.Quantile(.5))
}

// The lab's delays have the same quantiles, so that both can be compared.
func TestQuantileIsThatOfTheLab(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 100, 101, 999} {
		var delays measure.Delays
		for _, v := range upTo(n) {
			delays = append(delays, time.Duration(v))
		}
		for _, tail := range Tails() {
			require.Equal(t, float64(delays.Quantile(tail.At)), Quantile(upTo(n), tail.At), "quantile %v of %d",
				tail.At, n)
		}
	}
}

func TestQuantilesNeedEnoughValues(t *testing.T) {
	for n, want := range map[int][]string{
		0:    nil,
		1:    nil,
		2:    {"d.p50"},
		99:   {"d.p50", "d.p90"},
		100:  {"d.p50", "d.p90", "d.p99"},
		999:  {"d.p50", "d.p90", "d.p99"},
		1000: {"d.p50", "d.p90", "d.p99", "d.p99.9"},
	} {
		metrics := make(map[string]float64)
		AddQuantiles(metrics, "d", upTo(n))
		var names []string
		for _, tail := range Tails() {
			if _, ok := metrics["d."+tail.Name]; ok {
				names = append(names, "d."+tail.Name)
			}
		}
		require.Equal(t, want, names, "%d values", n)
		require.Len(t, metrics, len(want))
	}
}

func TestStatistic(t *testing.T) {
	require.Equal(t, Statistic{Median: 2, Min: 1, Max: 9}, NewStatistic([]float64{9, 1, 2}))
	require.Equal(t, Statistic{Median: 2.5, Min: 1, Max: 9}, NewStatistic([]float64{9, 3, 1, 2}))
	require.Equal(t, Statistic{Median: 4, Min: 4, Max: 4}, NewStatistic([]float64{4}))
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 1.2345: "1.23", 12.345: "12.3", 123.45: "123", 12345.6: "12346", 0.012345: "0.0123",
		-1.5: "-1.5", 1e-9: "0", -1e-9: "0", 100: "100", math.Inf(1): "–",
	} {
		require.Equal(t, want, Number(v).String(), v)
	}
	require.Equal(t, "–", Unknown.String())
}
