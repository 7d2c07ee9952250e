package report

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/lab/bench/chart"
	"sluice/lab/bench/result"
	"sluice/lab/bench/result/resulttest"
)

var imagesOfMarkdown = regexp.MustCompile(`!\[[^]]*\]\(([^)]*)\)`)

// tables.md shows some of the plots that are written.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	r := resulttest.Sample()
	require.NoError(t, Write(dir, r))
	text, err := os.ReadFile(filepath.Join(dir, "tables.md"))
	require.NoError(t, err)
	var shown []string
	for _, m := range imagesOfMarkdown.FindAllStringSubmatch(string(text), -1) {
		shown = append(shown, m[1])
	}
	written, err := fs.Glob(os.DirFS(dir), "plots/*")
	require.NoError(t, err)
	require.NotEmpty(t, written)
	require.Subset(t, written, shown)
	for _, c := range (view{r}).charts() {
		require.FileExists(t, filepath.Join(dir, "plots", c.ID+".svg"))
	}
	r.Systems = append(r.Systems, r.Systems[0])
	require.ErrorContains(t, Write(dir, r), "report: system \"sluice\"")
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, Write(file, resulttest.Sample()), "the directory is a file")
	err := writeFile(filepath.Join(t.TempDir(), "x.svg"), func(io.Writer) error { return io.ErrShortWrite })
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.ErrorContains(t, err, "x.svg: ")
}

func TestCharts(t *testing.T) {
	r := resulttest.Sample()
	byID := map[string]chart.Chart{}
	for _, c := range (view{r}).charts() {
		byID[c.ID] = c
	}
	c := byID["cdf-delay-1-delay"]
	require.Equal(t, chart.CDF, c.Form)
	require.True(t, c.X.Log)
	require.Equal(t, []chart.Trace{
		{Name: "sluice", System: 0, X: []result.Number{0.1, 0.2, 3, 8}, Y: []result.Number{0, 0.5, 0.99, 1}},
		{Name: resulttest.Hostile, System: 1, X: []result.Number{0.2, 0.4, 6, 16}, Y: []result.Number{0, 0.5, 0.99, 1}},
	}, c.Traces)

	c = byID["delay-delay-p99"]
	require.Equal(t, chart.Bars, c.Form)
	require.Equal(t, []string{"1", "10"}, c.X.Categories)
	require.Equal(t, chart.Trace{Name: "sluice", X: []result.Number{0, 1}, Y: []result.Number{3, 30},
		Low: []result.Number{2.9, 29}, High: []result.Number{3.3, 33}}, c.Traces[0])

	c = byID["delay-cpu-all"]
	require.Equal(t, chart.Lines, c.Form)
	require.Equal(t, []result.Number{1, 10}, c.Traces[0].X)

	c = byID["series-congestion-step-goodput"]
	require.Len(t, c.Traces, 2)
	require.Equal(t, "time", c.X.Title)
}

func TestLargestPartsComeFirst(t *testing.T) {
	part := func(v float64) result.Statistic { return result.Statistic{Median: v} }
	require.Equal(t, []string{"softirq", "user", "other"}, byTotal([]map[string]result.Statistic{
		{"user": part(1), "softirq": part(2)}, {"user": part(2), "softirq": part(2), "other": part(1)},
	}))
}

func TestQuoteCommand(t *testing.T) {
	require.Equal(t, `a 'b c' '' 'd'\''e'`, breakCommand([]string{"a", "b c", "", "d'e"}))
	long := strings.Repeat("x", 60)
	require.Equal(t, "a --b "+long+" \\\n        --c "+long, breakCommand([]string{"a", "--b", long, "--c", long}))
}

func TestSummary(t *testing.T) {
	var b strings.Builder
	r := resulttest.Sample()
	require.NoError(t, view{r}.writeTables(&b, view{r}.charts()))
	md := b.String()
	require.Contains(t, md, "Measured on 2026-01-02, commit `abc1234`, in 1.5 minutes, on A CPU &amp; more, 2 cores, "+
		"Linux 6.18.0 (virtualised: kvm).\nThe hypervisor gave 0 % of the CPU time to others.")
	require.Contains(t, md,
		"| capacity | subscribers served | 80 (78–81) | &lt;script>alert(\"x\")&lt;/script>: 200 (190–210) | 2.5 |\n")
	require.Contains(t, md, "| relay | A CPU, 4 cores, Linux 6.12 | eth&lt;0> | ice | 1500 | 8 | 0f |  |\n")
	require.Contains(t, md, "| capacity | sluice | 2 | 80 (78–81) |\n")
	require.Contains(t, md, "](plots/cdf-delay-1-delay.svg)")
	require.NotContains(t, md, "<script>")
	require.Contains(t, md, `other \| tee`)
}

func TestWrap(t *testing.T) {
	word := strings.Repeat("ö", 59)
	require.Equal(t, "\n", wrap("", "  "))
	require.Equal(t, word+" "+word+"\n", wrap(word+" "+word, "  "), "119 columns")
	require.Equal(t, word+" "+word+"\n  "+word+"\n", wrap(word+" "+word+" "+word, "  "))
	require.Equal(t, "a\n"+strings.Repeat("x", 200)+"\nb\n", wrap("a "+strings.Repeat("x", 200)+" b", ""))
}

func TestOddReports(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	unusable := resulttest.Sample()
	for i := range unusable.Scenarios {
		for j := range unusable.Scenarios[i].Summaries {
			unusable.Scenarios[i].Summaries[j] = result.Summary{System: unusable.Systems[j].Name,
				Unusable: "the generator was busy"}
		}
		unusable.Scenarios[i].Runs = nil
	}
	notFinite := resulttest.Sample()
	for _, s := range notFinite.Scenarios {
		for _, sum := range s.Summaries {
			for name := range sum.Metrics {
				sum.Metrics[name] = result.Statistic{Median: nan, Min: -inf, Max: inf}
			}
			for _, d := range sum.Distributions {
				d.Value[3] = inf
			}
			for _, b := range sum.Breakdowns {
				b["user"] = result.Statistic{Median: nan, Min: nan, Max: nan}
			}
		}
	}
	zeros := resulttest.Sample()
	for _, s := range zeros.Scenarios {
		for _, sum := range s.Summaries {
			for name := range sum.Metrics {
				sum.Metrics[name] = result.Statistic{}
			}
			for _, d := range sum.Distributions {
				clear(d.Value)
			}
		}
	}
	for name, c := range map[string]struct {
		report result.Report
		says   string
	}{
		"empty": {result.Report{Format: result.Format}, "# Tables"},
		"no runs": {result.Report{Systems: []result.System{{Name: "a"}},
			Scenarios: []result.Scenario{{Kind: "delay", Name: "x", Title: "x"}}}, "within the spread"},
		"no kind": {result.Report{Systems: []result.System{{Name: "a"}},
			Scenarios: []result.Scenario{{Name: "x", Title: "x"}}}, "Other"},
		"unusable":   {unusable, "sluice: no number: the generator was busy"},
		"not finite": {notFinite, "–"},
		"zeros":      {zeros, "within the spread"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, Write(dir, c.report))
			tables, err := os.ReadFile(filepath.Join(dir, "tables.md"))
			require.NoError(t, err)
			require.Contains(t, string(tables), c.says)
			require.NotContains(t, string(tables), "NaN")
		})
	}
}

// FuzzReport reads anything, and draws any report that can be read.
func FuzzReport(f *testing.F) {
	// Small seeds, because the fuzzer spends its time on making large ones smaller.
	const system, scenario = `{"format":1,"systems":[{"name":"a"}],"scenarios":[`, `{"kind":"k","name":"n",`
	for _, s := range []string{
		`{"format":1}`,
		system + scenario + `"summaries":[{"system":"a","metrics":{"m":{"median":1,"min":0,"max":2}}}]}]}`,
		system + scenario + `"summaries":[{"system":"a","distributions":{"d":{"at":[0,1],"value":[1,2]}}}]}]}`,
		system + scenario + `"summaries":[{"system":"a","breakdowns":{"b":{"p":{"median":1}}}}]}]}`,
		system + scenario + `"runs":[{"system":"a","series":{"s":{"time":[0,1],"value":[1,2]}}}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testlimit.Start(t, len(data), 1000)()
		r, err := result.Parse(data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		charts := view{r}.charts()
		for _, c := range charts[:min(len(charts), 3)] {
			require.NoError(t, chart.Draw(io.Discard, c))
		}
		var b strings.Builder
		require.NoError(t, view{r}.writeTables(&b, charts))
	})
}

// Scenarios of a chain differ in the number of relays, of forwarding in the number of flows, and others in the number
// of subscribers.
func TestAxis(t *testing.T) {
	scenario := func(p result.Params) result.Scenario { return result.Scenario{Kind: "k", Params: p} }
	for title, g := range map[string]group{
		"relays": {scenarios: []result.Scenario{
			scenario(result.Params{Relays: 2, Subscribers: 1}), scenario(result.Params{Relays: 3, Subscribers: 1}),
		}},
		"subscribers": {scenarios: []result.Scenario{
			scenario(result.Params{Subscribers: 2}), scenario(result.Params{Subscribers: 3}),
		}},
		"flows": {scenarios: []result.Scenario{
			scenario(result.Params{Flows: 2}), scenario(result.Params{Flows: 3}),
		}},
	} {
		require.Len(t, groups(g.scenarios), 1)
		c := view{}.overGroup("k", "m", g, chart.Bars)
		require.Equal(t, title, c.X.Title)
		require.Equal(t, []string{"2", "3"}, c.X.Categories)
		require.Equal(t, title, view{}.overGroup("k", "m", g, chart.Lines).X.Title)
	}
}

func TestDifference(t *testing.T) {
	a, b := result.Params{Load: "idle", Media: "mock"}, result.Params{Load: "hog", Media: "mock", Rate: 5}
	require.Equal(t, "hog", difference([]result.Params{a, b}, b))
	c := result.Params{Load: "idle", Media: "mock ladder", Rate: 2}
	require.Equal(t, "idle, mock ladder, 2 Mbit/s", difference([]result.Params{a, b, c}, c))
}
