package result

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// of returns a report with one metric of one system in one scenario.
func of(runs int, s Statistic) Report {
	return Report{
		Format: Format, Systems: []System{{Name: "sluice"}},
		Machine: Machine{CPU: "c", Cores: 2, Kernel: "6.18"},
		Metrics: map[string]Metric{"p99": {Title: "delay, p99", Unit: "ms", Better: -1}},
		Scenarios: []Scenario{{Kind: "delay", Name: "delay/1",
			Summaries: []Summary{{System: "sluice", Runs: runs, Metrics: map[string]Statistic{"p99": s}}}}},
	}
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Report
		want          string
	}{
		"worse": {of(3, Statistic{2, 1.9, 2.1}), of(3, Statistic{3, 2.8, 3.1}),
			"delay/1   sluice  delay, p99, ms  2 (1.9–2.1)  3 (2.8–3.1)  +50.0%  yes             worse"},
		"better": {of(3, Statistic{3, 2.8, 3.1}), of(3, Statistic{2, 1.9, 2.1}),
			"delay/1   sluice  delay, p99, ms  3 (2.8–3.1)  2 (1.9–2.1)  -33.3%  yes             better"},
		"noise": {of(3, Statistic{2, 1, 4}), of(3, Statistic{3, 2, 5}),
			"delay/1   sluice  delay, p99, ms  2 (1–4)  3 (2–5)  +50.0%  no              "},
		"one run": {of(1, Statistic{2, 2, 2}), of(3, Statistic{3, 3, 3}),
			"delay/1   sluice  delay, p99, ms  2       3      +50.0%  one run         worse"},
		"no change": {of(3, Statistic{2, 2, 2}), of(3, Statistic{2, 2, 2}),
			"delay/1   sluice  delay, p99, ms  2       2      0%      no              "},
		"zero": {of(3, Statistic{}), of(3, Statistic{1, 1, 1}),
			"delay/1   sluice  delay, p99, ms  0       1      from zero  yes             worse"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, Compare(c.before, c.after).Write(&b))
			header, row, _ := strings.Cut(strings.TrimSuffix(b.String(), "\n"), "\n")
			require.Equal(t, strings.Fields("SCENARIO SYSTEM METRIC BEFORE AFTER CHANGE EXCEEDS SPREAD VERDICT"),
				strings.Fields(header))
			require.Equal(t, c.want, row)
		})
	}
}

func TestCompareDifferentReports(t *testing.T) {
	before, after := of(3, Statistic{1, 1, 1}), of(3, Statistic{1, 1, 1})
	before.Scenarios[0].Name = "old"
	after.Scenarios[0].Summaries[0] = Summary{System: "sluice", Unusable: "the generator was busy"}
	after.Scenarios = append(after.Scenarios, Scenario{Name: "old",
		Summaries: []Summary{{System: "sluice", Unusable: "the run failed"}}})
	after.Machine.Kernel = "6.19"
	after.Systems = append(after.Systems, System{Name: "takes no part"})
	c := Compare(before, after)
	require.Empty(t, c.Changes)
	var b strings.Builder
	require.NoError(t, c.Write(&b))
	require.Equal(t, `SCENARIO  SYSTEM  METRIC  BEFORE  AFTER  CHANGE  EXCEEDS SPREAD  VERDICT
not compared: measured on different machines: c, 2 cores, Linux 6.18; c, 2 cores, Linux 6.19
not compared: delay/1: only in the second report
not compared: old, sluice: no number: the run failed
`, b.String())
}

func TestWorse(t *testing.T) {
	c := Compare(of(3, Statistic{2, 1.9, 2.1}), of(3, Statistic{3, 2.8, 3.1}))
	require.Len(t, c.Worse(49), 1)
	require.Empty(t, c.Worse(51))
	require.Empty(t, Compare(of(3, Statistic{3, 2.8, 3.1}), of(3, Statistic{2, 1.9, 2.1})).Worse(0), "it got better")
	require.Empty(t, Compare(of(3, Statistic{2, 1, 3}), of(3, Statistic{3, 2, 4})).Worse(0), "within the spread")
	require.Empty(t, Compare(of(1, Statistic{2, 2, 2}), of(1, Statistic{3, 3, 3})).Worse(0), "the spread is not known")
}
