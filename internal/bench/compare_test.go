package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// of is a report with one metric of one system in one scenario.
func of(runs int, s Statistic) Report {
	return Report{
		Format: Format, Systems: []System{{Name: "sluice"}},
		Machine:   Machine{CPU: "c", Cores: 2, Kernel: "6.18"},
		Metrics:   map[string]Metric{"p99": {Title: "delay, p99", Unit: "ms", Better: -1}},
		Scenarios: []Scenario{{Kind: "delay", Name: "delay/1", Summaries: []Summary{{System: "sluice", Runs: runs, Metrics: map[string]Statistic{"p99": s}}}}},
	}
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Report
		want          string
	}{
		"worse":     {of(3, Statistic{2, 1.9, 2.1}), of(3, Statistic{3, 2.8, 3.1}), "delay/1   sluice  delay, p99, ms  2 (1.9–2.1)  3 (2.8–3.1)  +50.0%  yes             worse"},
		"better":    {of(3, Statistic{3, 2.8, 3.1}), of(3, Statistic{2, 1.9, 2.1}), "delay/1   sluice  delay, p99, ms  3 (2.8–3.1)  2 (1.9–2.1)  -33.3%  yes             better"},
		"noise":     {of(3, Statistic{2, 1, 4}), of(3, Statistic{3, 2, 5}), "delay/1   sluice  delay, p99, ms  2 (1–4)  3 (2–5)  +50.0%  no              "},
		"one run":   {of(1, Statistic{2, 2, 2}), of(3, Statistic{3, 3, 3}), "delay/1   sluice  delay, p99, ms  2       3      +50.0%  one run         worse"},
		"no change": {of(3, Statistic{2, 2, 2}), of(3, Statistic{2, 2, 2}), "delay/1   sluice  delay, p99, ms  2       2      0%      no              "},
		"zero":      {of(3, Statistic{}), of(3, Statistic{1, 1, 1}), "delay/1   sluice  delay, p99, ms  0       1      from zero  yes             worse"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, Compare(c.before, c.after).Write(&b))
			header, row, _ := strings.Cut(strings.TrimSuffix(b.String(), "\n"), "\n")
			require.Equal(t, strings.Fields("SCENARIO SYSTEM METRIC BEFORE AFTER CHANGE EXCEEDS SPREAD VERDICT"), strings.Fields(header))
			require.Equal(t, c.want, row)
		})
	}
}

func TestCompareDifferentReports(t *testing.T) {
	before, after := of(3, Statistic{1, 1, 1}), of(3, Statistic{1, 1, 1})
	before.Scenarios[0].Name = "old"
	after.Scenarios[0].Summaries[0] = Summary{System: "sluice", Unusable: "the generator was busy"}
	after.Scenarios = append(after.Scenarios, Scenario{Name: "old", Summaries: []Summary{{System: "sluice", Unusable: "the run failed"}}})
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
	require.Empty(t, Compare(of(1, Statistic{2, 2, 2}), of(1, Statistic{3, 3, 3})).Worse(0), "nobody knows the spread")
}

func TestReadReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	_, err := ReadReport(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	want := sampleReport()
	b, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	got, err := ReadReport(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for says, content := range map[string]string{
		"unexpected end of JSON input":           string(b[:len(b)/2]),
		"its format is 0, this program reads 1":  "{}",
		"invalid character":                      "hello",
		"its format is 99, this program reads 1": strings.Replace(string(b), `"format":1`, `"format":99`, 1),
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := ReadReport(path)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, path)
	}
}

// FuzzReport reads anything, and draws and compares what it could read.
func FuzzReport(f *testing.F) {
	// Small seeds, because the fuzzer spends its time on making large ones smaller.
	for _, s := range []string{
		`{"format":1}`,
		`{"format":1,"systems":[{"name":"a"}],"scenarios":[{"kind":"k","name":"n","summaries":[{"system":"a","metrics":{"m":{"median":1,"min":0,"max":2}}}]}]}`,
		`{"format":1,"systems":[{"name":"a"}],"scenarios":[{"name":"n","summaries":[{"system":"a","distributions":{"d":{"at":[0,1],"value":[1,2]}}}]}]}`,
		`{"format":1,"systems":[{"name":"a"}],"scenarios":[{"name":"n","summaries":[{"system":"a","breakdowns":{"b":{"p":{"median":1}}}}]}]}`,
		`{"format":1,"systems":[{"name":"a"}],"scenarios":[{"name":"n","runs":[{"system":"a","series":{"s":{"time":[0,1],"value":[1,2]}}}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseReport(data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		charts := r.charts()
		for _, c := range charts[:min(len(charts), 3)] {
			_, err := drawPlot("svg", c)
			require.NoError(t, err)
		}
		var b strings.Builder
		require.NoError(t, r.writePage(&b, charts))
		require.NoError(t, r.writeSummary(&b, charts))
		require.NoError(t, Compare(r, sampleReport()).Write(&b))
	})
}

func TestMerge(t *testing.T) {
	a, b := sampleReport(), sampleReport()
	a.Scenarios, b.Scenarios = a.Scenarios[:2], b.Scenarios[1:]
	a.Duration, b.Duration, b.Machine.Steal = 30, 60, 0.3
	b.Systems = append(b.Systems, System{Name: "third"})
	b.Scenarios[0].Title = "newer"
	m, err := Merge(a, b)
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
	require.Equal(t, quoteCommands(a.Command)+"\n"+quoteCommands(b.Command), quoteCommands(m.Command))
	require.Len(t, a.Scenarios, 2, "the merged reports stay as they are")

	b.Commit = "other"
	_, err = Merge(a, b)
	require.ErrorContains(t, err, "different programs or machines")
	b = sampleReport()
	b.Systems[0].Command = "sluice relay --other"
	_, err = Merge(a, b)
	require.ErrorContains(t, err, "different commands for the system sluice")
	_, err = Merge()
	require.Error(t, err)
}
