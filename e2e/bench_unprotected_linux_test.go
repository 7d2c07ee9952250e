package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/internal/thorough"
	"sluice/lab/bench"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
)

// Builds with packet protection and without it are measured in one bench, each with load generators of its own.
func TestBenchUnprotected(t *testing.T) {
	thorough.Only(t)
	dir, err := buildUnprotected()
	require.NoError(t, err)
	without := system.Unprotected(cli.Version(), dir)
	r := measure(t, bench.RunConfig{
		Systems: append(system.Sluice(cli.Version())[:1], without...), Kinds: []string{result.KindDelay},
		Subscribers: []int{2}, Repetitions: 1, Duration: time.Second, Warmup: 500 * time.Millisecond, Brief: true,
	})
	require.Len(t, r.Scenarios[0].Runs, 3)
	for _, run := range r.Scenarios[0].Runs {
		require.NotContains(t, run.Unusable, "the run failed")
		require.Positive(t, run.Distributions["first"].Count)
		require.Zero(t, run.Metrics["lost"], run.System)
		require.Zero(t, run.Metrics["corrupt"], run.System)
		forwards := run.System == system.FastPath || run.System == without[0].Name
		require.Equal(t, forwards, run.Metrics["kernel"] > 0, run.System)
	}
}
