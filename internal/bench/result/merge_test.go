package result_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/result"
	"sluice/internal/bench/result/resulttest"
)

func TestMerge(t *testing.T) {
	a, b := resulttest.Sample(), resulttest.Sample()
	a.Scenarios, b.Scenarios = a.Scenarios[:2], b.Scenarios[1:]
	a.Duration, b.Duration, b.Machine.Steal = 30, 60, 0.3
	b.Systems = append(b.Systems, result.System{Name: "third"})
	b.Scenarios[0].Title = "newer"
	m, err := result.Merge(a, b)
	require.NoError(t, err)
	require.Len(t, m.Systems, 3)
	require.Equal(t, 90.0, m.Duration)
	require.InDelta(t, 0.2, m.Machine.Steal, 1e-9)
	var names []string
	for _, s := range m.Scenarios {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"delay/1", "delay/10", "capacity", "congestion/step"}, names)
	require.Equal(t, "newer", m.Scenarios[1].Title)
	require.Equal(t, slices.Concat(a.Command, []string{";"}, b.Command), m.Command)
	require.Len(t, a.Scenarios, 2, "the merged reports stay as they are")

	b.Commit = "other"
	_, err = result.Merge(a, b)
	require.ErrorContains(t, err, "different programs or machines")
	b = resulttest.Sample()
	b.Systems[0].Command = "sluice relay --other"
	_, err = result.Merge(a, b)
	require.ErrorContains(t, err, "different commands for the system sluice")
	_, err = result.Merge()
	require.Error(t, err)
}
