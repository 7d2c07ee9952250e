package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
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
	d := newDistribution(values)
	require.Equal(t, 10_000, d.Count)
	require.Len(t, d.Value, len(d.At))
	require.True(t, slices.IsSorted(d.At))
	for i, at := range d.At {
		require.InDelta(t, max(1, at*10_000), d.Value[i], 1e-9, "quantile %v", at) // 0 is the least value
	}
	require.Equal(t, 5000., d.quantile(.5))
	require.Equal(t, 9990., d.quantile(.999))
	require.Equal(t, 0., d.quantile(.12345))
	require.Equal(t, Distribution{}, newDistribution(nil))
	require.Equal(t, 0., Distribution{}.quantile(.5))
}

// Quantiles are those of the lab's delays, so that both can be compared.
func TestQuantileIsThatOfTheLab(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 100, 101, 999} {
		var delays lab.Delays
		for _, v := range upTo(n) {
			delays = append(delays, time.Duration(v))
		}
		for _, tail := range tails {
			require.Equal(t, float64(delays.Quantile(tail.at)), quantile(upTo(n), tail.at), "quantile %v of %d", tail.at, n)
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
		addQuantiles(metrics, "d", upTo(n))
		var names []string
		for _, tail := range tails {
			if _, ok := metrics["d."+tail.name]; ok {
				names = append(names, "d."+tail.name)
			}
		}
		require.Equal(t, want, names, "%d values", n)
		require.Len(t, metrics, len(want))
	}
}

func TestStatistic(t *testing.T) {
	require.Equal(t, Statistic{Median: 2, Min: 1, Max: 9}, newStatistic([]float64{9, 1, 2}))
	require.Equal(t, Statistic{Median: 2.5, Min: 1, Max: 9}, newStatistic([]float64{9, 3, 1, 2}))
	require.Equal(t, Statistic{Median: 4, Min: 4, Max: 4}, newStatistic([]float64{4}))
}

func TestSummarize(t *testing.T) {
	run := func(cpu float64, delays []float64, unusable string, notes ...string) outcome {
		o := newOutcome()
		o.Metrics["cpu.system"], o.values["first"], o.Unusable, o.Notes = cpu, delays, unusable, notes
		o.Breakdowns["cpu"] = map[string]float64{"relay": cpu / 2}
		addQuantiles(o.Metrics, "first", delays)
		return *o
	}
	s := summarize("a", []outcome{run(1, upTo(60), ""), run(100, upTo(10), "busy", "noisy"), run(3, upTo(60), "", "noisy")})
	require.Equal(t, 2, s.Runs)
	require.Empty(t, s.Unusable)
	require.Equal(t, []string{"noisy"}, s.Notes)
	require.Equal(t, Statistic{2, 1, 3}, s.Metrics["cpu.system"])
	require.Equal(t, Statistic{1, .5, 1.5}, s.Breakdowns["cpu"]["relay"])
	require.Equal(t, 120, s.Distributions["first"].Count)
	require.Equal(t, Statistic{30, 30, 30}, s.Metrics["first.p50"])
	require.Equal(t, Statistic{60, 60, 60}, s.Metrics["first.p99"], "no run alone has enough values for this, but all have")
	require.NotContains(t, s.Metrics, "first.p99.9")

	s = summarize("a", []outcome{run(1, nil, "first reason"), run(1, nil, "second reason")})
	require.Equal(t, Summary{System: "a", Unusable: "second reason"}, s)
	require.Equal(t, Summary{System: "a"}, summarize("a", nil))
}

func TestBisect(t *testing.T) {
	for i := range 2 * 120 {
		capacity, first, step := i/2, 10, 10
		if i%2 > 0 { // with an idea of what it is
			first, step = max(1, capacity+capacity/8), max(1, capacity/10)
		}
		tried := make(map[int]bool)
		got, err := bisect(first, step, 100, .1, func(n int) (bool, error) {
			require.False(t, tried[n], "%d is tried twice", n)
			require.True(t, n >= 1 && n <= 100, "%d is tried", n)
			tried[n] = true
			return n <= capacity, nil
		})
		require.NoError(t, err)
		want := min(capacity, 100)
		require.LessOrEqual(t, got, want)
		require.LessOrEqual(t, want-got, int(math.Ceil(max(1, .1*float64(want)))), "capacity %d, found %d", want, got)
		require.LessOrEqual(t, len(tried), 10)
		require.True(t, got == 0 || tried[got], "%d was not tried", got)
	}
	_, err := bisect(10, 10, 100, .1, func(int) (bool, error) { return false, errNobody })
	require.ErrorIs(t, err, errNobody)
}

func TestSeriesOf(t *testing.T) {
	require.Equal(t, Series{Time: []float64{10, 20, 40}, Value: []float64{1, 2, 7}}, seriesOf(map[int]float64{40: 7, 10: 1, 20: 2}))
}

// Every name that runs use is described, and each metric belongs to some kind.
func TestQuantitiesAreDescribed(t *testing.T) {
	described := describe()
	for name, q := range quantities {
		require.NotEmpty(t, q.Title, name)
		require.Contains(t, described, name)
		require.NotEmpty(t, q.kinds, name)
		for _, kind := range q.kinds {
			require.Contains(t, Kinds(), kind)
			require.True(t, has(kind, name))
			require.Equal(t, q.tails, has(kind, name+".p99.9"), name)
		}
	}
	require.Contains(t, described, "first.p99.9")
	require.False(t, has(KindCPU, "first"))
	require.False(t, has(KindDelay, "cpu.system"))
	require.False(t, has(KindDelay, "first.p98"))
}

func TestOutcomeOfAKind(t *testing.T) {
	o := newOutcome()
	o.Metrics = map[string]float64{"first.p50": 1, "cpu.system": 2, "lost": 3}
	o.values["first"] = upTo(3)
	o.Breakdowns["cpu"] = map[string]float64{"relay": 1}
	delay := o.of(KindDelay).finished()
	require.Equal(t, map[string]float64{"first.p50": 1, "lost": 3}, delay.Metrics)
	require.Equal(t, 3, delay.Distributions["first"].Count)
	require.Empty(t, delay.Breakdowns)
	cpu := o.of(KindCPU).finished()
	require.Equal(t, map[string]float64{"cpu.system": 2, "lost": 3}, cpu.Metrics)
	require.Empty(t, cpu.Distributions)
	require.Len(t, cpu.Breakdowns, 1)
}
