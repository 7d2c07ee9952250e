package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

// Every metric has a description and belongs to some kind of scenarios.
func TestQuantitiesAreDescribed(t *testing.T) {
	described := describe()
	for name, q := range quantities {
		require.NotEmpty(t, q.Title, name)
		require.Contains(t, described, name)
		require.NotEmpty(t, q.kinds, name)
		for _, kind := range q.kinds {
			require.Contains(t, result.Kinds(), kind)
			require.True(t, hasMetric(kind, name))
			require.Equal(t, q.tails, hasMetric(kind, name+".p99.9"), name)
		}
	}
	require.Contains(t, described, "first.p99.9")
	require.False(t, hasMetric(result.KindCPU, "first"))
	require.False(t, hasMetric(result.KindDelay, "cpu.system"))
	require.False(t, hasMetric(result.KindDelay, "first.p98"))
}

func TestOutcomeOfAKind(t *testing.T) {
	o := newOutcome()
	o.Metrics = map[string]float64{"first.p50": 1, "cpu.system": 2, "lost": 3}
	o.values["first"] = upTo(3)
	o.Breakdowns["cpu"] = map[string]float64{"relay": 1}
	delay := o.of(result.KindDelay).finished()
	require.Equal(t, map[string]float64{"first.p50": 1, "lost": 3}, delay.Metrics)
	require.Equal(t, 3, delay.Distributions["first"].Count)
	require.Empty(t, delay.Breakdowns)
	cpu := o.of(result.KindCPU).finished()
	require.Equal(t, map[string]float64{"cpu.system": 2, "lost": 3}, cpu.Metrics)
	require.Empty(t, cpu.Distributions)
	require.Len(t, cpu.Breakdowns, 1)
}
