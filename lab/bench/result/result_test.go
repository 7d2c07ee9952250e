package result_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
	"sluice/lab/bench/result/resulttest"
)

func TestReportAccess(t *testing.T) {
	r := resulttest.Sample()
	require.Equal(t, []string{"delay", "capacity", "congestion"}, r.Kinds())
	require.Len(t, r.OfKind("delay"), 2)
	require.Empty(t, r.OfKind("cpu"))
	require.Equal(t, "sluice", r.Subject())
	require.Empty(t, result.Report{}.Subject())
	require.Equal(t, "delay, p99", r.Metric("delay.p99").Title)
	require.Equal(t, result.Metric{Title: "unknown"}, r.Metric("unknown"))
	require.Equal(t, 2, r.Scenarios[0].Summary("sluice").Runs)
	require.Equal(t, result.Summary{System: "other", Unusable: result.NotRun}, r.Scenarios[0].Summary("other"))
	require.Equal(t, "A CPU & more, 2 cores, Linux 6.18.0", r.Machine.String())
	r.Machine.Offloads["checksum"] = "off"
	require.Equal(t, "checksum off, gro on", r.Machine.OffloadList())
}

func TestNoise(t *testing.T) {
	with := func(others float64) result.Summary {
		return result.Summary{Metrics: map[string]result.Statistic{"others": {Median: 1, Max: others}}}
	}
	require.Empty(t, result.Summary{}.Noise())
	require.Empty(t, with(19.9).Noise())
	require.Equal(t, "unrelated processes used up to 40% of a core", with(40).Noise())
}
