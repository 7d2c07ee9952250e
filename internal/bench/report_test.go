package bench

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const hostile = `<script>alert("x")</script>`

// sample is a report with something of everything: two systems, several kinds, a run that does not count, names that break markup.
func sampleReport() Report {
	r := Report{
		Format: Format, Commit: "abc1234", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Duration: 90, Seed: 7,
		Command: []string{"sluice-lab", "bench", "--relay-cmd", "other --bind {addr} 'x'"},
		Machine: Machine{Kernel: "6.18.0", CPU: "A CPU & more", Cores: 2, Memory: 8 << 30, Virtualised: "kvm", Offloads: map[string]string{"gro": "on"}},
		Systems: []System{{Name: "sluice", Version: "1", Command: "sluice relay"}, {Name: hostile, Command: "other | tee"}},
		Metrics: map[string]Metric{
			"delay":     {Title: "delay", Unit: "ms", Better: -1},
			"delay.p50": {Title: "delay, p50", Unit: "ms", Better: -1},
			"delay.p99": {Title: "delay, p99", Unit: "ms", Better: -1},
			"cpu":       {Title: "CPU by user", Unit: "%", Better: -1},
			"cpu.all":   {Title: "CPU", Unit: "%", Better: -1},
			"capacity":  {Title: "subscribers served", Better: 1},
			"goodput":   {Title: "goodput", Unit: "Mbit/s", Better: 1},
			"link":      {Title: "rate of the link", Unit: "Mbit/s"},
		},
	}
	for _, n := range []int{1, 10} {
		s := Scenario{Kind: "delay", Name: fmt.Sprint("delay/", n), Title: fmt.Sprint("fan-out ", n), Params: Params{Subscribers: n, Load: "idle"}}
		for i, system := range r.Systems {
			scale := float64(n * (i + 1))
			d := Distribution{Count: 300, At: []float64{0, 0.5, 0.99, 1}, Value: []float64{0.1 * scale, 0.2 * scale, 3 * scale, 8 * scale}}
			s.Runs = append(s.Runs, Run{System: system.Name, Repetition: 1, Distributions: map[string]Distribution{"delay": d}},
				Run{System: system.Name, Repetition: 2, Unusable: "the load generator was the bottleneck"})
			s.Summaries = append(s.Summaries, Summary{System: system.Name, Runs: 2, Notes: []string{"a note"},
				Distributions: map[string]Distribution{"delay": d},
				Metrics: map[string]Statistic{
					"delay.p50": {0.2 * scale, 0.15 * scale, 0.22 * scale}, "delay.p99": {3 * scale, 2.9 * scale, 3.3 * scale}, "cpu.all": {scale, scale, scale}},
				Breakdowns: map[string]map[string]Statistic{"cpu": {"user": {1, 1, 1}, "softirq": {2, 2, 2}}},
			})
		}
		r.Scenarios = append(r.Scenarios, s)
	}
	capacity := Scenario{Kind: "capacity", Name: "capacity", Title: "capacity", Summaries: []Summary{
		{System: "sluice", Runs: 2, Metrics: map[string]Statistic{"capacity": {80, 78, 81}}},
		{System: hostile, Runs: 2, Metrics: map[string]Statistic{"capacity": {200, 190, 210}}},
	}}
	congestion := Scenario{Kind: "congestion", Name: "congestion/step", Title: "step"}
	for i, system := range r.Systems {
		congestion.Runs = append(congestion.Runs, Run{System: system.Name, Repetition: 1, Series: map[string]Series{
			"goodput": {Time: []float64{0, 1, 2}, Value: []float64{1, float64(i), 2}},
			"link":    {Time: []float64{0, 1, 2}, Value: []float64{3, 1, 3}},
		}})
		congestion.Summaries = append(congestion.Summaries, Summary{System: system.Name, Runs: 1, Metrics: map[string]Statistic{"goodput": {1, 1, 1}}})
	}
	r.Scenarios = append(r.Scenarios, capacity, congestion)
	return r
}

func TestWriteReport(t *testing.T) {
	dir := t.TempDir()
	r := sampleReport()
	require.NoError(t, WriteReport(dir, r))
	charts := r.charts()
	require.NotEmpty(t, charts)
	for _, c := range charts {
		svg := svgText(t, filepath.Join(dir, "plots", c.ID+".svg"))
		require.Contains(t, svg, c.Title)
		for _, a := range []axis{c.X, c.Y} {
			if label := withUnit(a.Title, a.Unit); label != "" {
				require.Contains(t, svg, label, c.ID)
			}
		}
		for _, trace := range c.Traces {
			require.Contains(t, svg, trace.Name, c.ID)
		}
		for _, category := range c.X.Categories {
			require.Contains(t, svg, category, c.ID)
		}
		f, err := os.Open(filepath.Join(dir, "plots", c.ID+".png"))
		require.NoError(t, err)
		img, err := png.Decode(f)
		f.Close()
		require.NoError(t, err)
		require.Greater(t, img.Bounds().Dx(), 500)
	}
}

// svgText is the texts of an SVG file, which has to be XML.
func svgText(t *testing.T, path string) []string {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var texts []string
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err, path)
		if s, ok := token.(xml.CharData); ok {
			texts = append(texts, string(s))
		}
	}
}

func TestCharts(t *testing.T) {
	r := sampleReport()
	byID := map[string]chart{}
	for _, c := range r.charts() {
		byID[c.ID] = c
	}
	c := byID["cdf-delay-1-delay"]
	require.Equal(t, cdf, c.Form)
	require.True(t, c.X.Log)
	require.Equal(t, []trace{
		{Name: "sluice", System: 0, X: []number{0.1, 0.2, 3, 8}, Y: []number{0, 0.5, 0.99, 1}},
		{Name: hostile, System: 1, X: []number{0.2, 0.4, 6, 16}, Y: []number{0, 0.5, 0.99, 1}},
	}, c.Traces)

	c = byID["delay-delay-p99"]
	require.Equal(t, bars, c.Form)
	require.Equal(t, []string{"1", "10"}, c.X.Categories)
	require.Equal(t, trace{Name: "sluice", X: []number{0, 1}, Y: []number{3, 30}, Low: []number{2.9, 29}, High: []number{3.3, 33}}, c.Traces[0])

	c = byID["delay-cpu-all"]
	require.Equal(t, lines, c.Form)
	require.Equal(t, []number{1, 10}, c.Traces[0].X)

	c = byID["breakdown-delay-cpu"]
	require.Equal(t, stack, c.Form)
	require.Equal(t, []string{"1, sluice", "1, " + hostile, "10, sluice", "10, " + hostile}, c.X.Categories)
	require.Equal(t, []int{0, 1, 0, 1}, c.X.Systems)
	require.Equal(t, "softirq", c.Traces[0].Name, "the largest part comes first")

	c = byID["series-congestion-step-goodput"]
	require.Len(t, c.Traces, 3)
	require.Equal(t, "rate of the link", c.Traces[2].Name, "what is common to all systems is shown for comparison")
	require.NotContains(t, byID, "series-congestion-step-link")
}

func TestManyPartsBecomeOne(t *testing.T) {
	parts := map[string]Statistic{}
	for i := range 20 {
		parts[string(rune('a'+i))] = Statistic{Median: float64(i)}
	}
	shown, rest := largestParts([]map[string]Statistic{parts})
	require.Equal(t, []string{"t", "s", "r", "q", "p", "o", "n"}, shown)
	require.Len(t, rest, 13)
}

func TestSameNamesMakeDifferentFiles(t *testing.T) {
	charts := []chart{{ID: "a/b"}, {ID: "A b"}, {ID: "a b"}, {ID: "…"}, {ID: strings.Repeat("x", 300)}}
	uniqueIDs(charts)
	var ids []string
	for _, c := range charts {
		ids = append(ids, c.ID)
	}
	require.Equal(t, []string{"a-b", "a-b-2", "a-b-3", "chart", strings.Repeat("x", 80)}, ids)
}

var embedded = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// pageOf is the page of a report, and what it has embedded.
func pageOf(t *testing.T, r Report) (string, map[string]any) {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.writePage(&b, r.charts()))
	found := embedded.FindStringSubmatch(b.String())
	require.NotNil(t, found)
	var data map[string]any
	require.NoError(t, json.Unmarshal([]byte(found[1]), &data))
	return b.String(), data
}

func TestPage(t *testing.T) {
	r := sampleReport()
	html, data := pageOf(t, r)
	require.Len(t, data["charts"], len(r.charts()))
	require.Equal(t, []any{"sluice", hostile}, data["systems"])
	require.NotContains(t, html, "alert(\"x\")", "names are text, not markup")
	require.Equal(t, 2, strings.Count(html, "</script>"))
	require.NotRegexp(t, `(src|href)="(https?:)?//`, html, "the page needs no network")
	for _, s := range []string{"abc1234", "2026-01-02 03:04 UTC", "A CPU &amp; more", "sluice-lab bench --relay-cmd &#39;other --bind {addr} &#39;\\&#39;&#39;x&#39;\\&#39;&#39;&#39;",
		"run 2 does not count: the load generator was the bottleneck", "3 (2.9–3.3)", "80 (78–81)"} {
		require.Contains(t, html, s)
	}
	for _, c := range r.charts() {
		require.Contains(t, html, `"`+c.ID+`"`)
	}
}

func TestLosses(t *testing.T) {
	r := sampleReport()
	losses, worse, wins, ties := r.losses()
	require.Equal(t, []loss{{Scenario: "capacity", Metric: "subscribers served", Ours: "80 (78–81)", Theirs: hostile + ": 200 (190–210)", Factor: 2.5}}, losses)
	require.Equal(t, 1, worse)
	require.Equal(t, 6, wins, "delay p50 and p99 and the CPU, under two loads")
	require.Equal(t, 1, ties, "the goodput")
	html, _ := pageOf(t, r)
	require.Contains(t, html, ">2.5</td>")
}

func TestSummary(t *testing.T) {
	var b strings.Builder
	r := sampleReport()
	require.NoError(t, r.writeSummary(&b, r.charts()))
	md := b.String()
	require.Contains(t, md, "Measured on 2026-01-02, commit `abc1234`, in 1.5 minutes, on A CPU &amp; more, 2 cores, Linux 6.18.0 (virtualised: kvm).")
	require.Contains(t, md, "| capacity | subscribers served | 80 (78–81) | &lt;script>alert(\"x\")&lt;/script>: 200 (190–210) | 2.5 |\n")
	require.Contains(t, md, "| capacity | sluice | 2 | 80 (78–81) |\n")
	require.Contains(t, md, "](plots/cdf-delay-1-delay.svg)")
	require.NotContains(t, md, "<script>")
	require.Contains(t, md, `other \| tee`)
}

func TestOddReports(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	unusable := sampleReport()
	for i := range unusable.Scenarios {
		for j := range unusable.Scenarios[i].Summaries {
			unusable.Scenarios[i].Summaries[j] = Summary{System: unusable.Systems[j].Name, Unusable: "the generator was busy"}
		}
		unusable.Scenarios[i].Runs = nil
	}
	notFinite := sampleReport()
	for _, s := range notFinite.Scenarios {
		for _, sum := range s.Summaries {
			for name := range sum.Metrics {
				sum.Metrics[name] = Statistic{nan, -inf, inf}
			}
			for _, d := range sum.Distributions {
				d.Value[3] = inf
			}
			for _, b := range sum.Breakdowns {
				b["user"] = Statistic{nan, nan, nan}
			}
		}
	}
	zeros := sampleReport()
	for _, s := range zeros.Scenarios {
		for _, sum := range s.Summaries {
			for name := range sum.Metrics {
				sum.Metrics[name] = Statistic{}
			}
			for _, d := range sum.Distributions {
				clear(d.Value)
			}
		}
	}
	for name, c := range map[string]struct {
		report Report
		says   string
	}{
		"empty":      {Report{Format: Format}, "The report has no scenarios."},
		"no runs":    {Report{Systems: []System{{Name: "a"}}, Scenarios: []Scenario{{Kind: "delay", Name: "x", Title: "x"}}}, "Nothing was compared"},
		"no kind":    {Report{Systems: []System{{Name: "a"}}, Scenarios: []Scenario{{Name: "x", Title: "x"}}}, "Other"},
		"unusable":   {unusable, "sluice: no number: the generator was busy"},
		"not finite": {notFinite, "–"},
		"zeros":      {zeros, "within the spread"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, WriteReport(t.TempDir(), c.report))
			html, _ := pageOf(t, c.report)
			require.Contains(t, html, c.says)
			require.NotContains(t, html, "NaN")
		})
	}
}

func TestInvalidReports(t *testing.T) {
	system := []System{{Name: "a"}}
	for says, r := range map[string]Report{
		`system "a": a name must be unique`:                {Systems: []System{{Name: "a"}, {Name: "a"}}},
		`scenario "": a name must be unique and not empty`: {Scenarios: []Scenario{{}}},
		`a run of "b", which is not among the systems`:     {Systems: system, Scenarios: []Scenario{{Name: "x", Runs: []Run{{System: "b"}}}}},
		`a summary of "b", which is not among the systems`: {Systems: system, Scenarios: []Scenario{{Name: "x", Summaries: []Summary{{System: "b"}}}}},
		`series "s" has 1 times for 0 values`:              {Systems: system, Scenarios: []Scenario{{Name: "x", Runs: []Run{{System: "a", Series: map[string]Series{"s": {Time: []float64{1}}}}}}}},
		`distribution "d": 1 fractions for 0 values`:       {Systems: system, Scenarios: []Scenario{{Name: "x", Runs: []Run{{System: "a", Distributions: map[string]Distribution{"d": {At: []float64{1}}}}}}}},
		`distribution "d": not sorted`:                     {Systems: system, Scenarios: []Scenario{{Name: "x", Summaries: []Summary{{System: "a", Distributions: map[string]Distribution{"d": {At: []float64{1, 0}, Value: []float64{1, 2}}}}}}}},
	} {
		require.ErrorContains(t, WriteReport(t.TempDir(), r), says)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 0.5: "0.5", 1.2345: "1.23", 12.345: "12.3", 123.45: "123", 12345.6: "12346", 0.012345: "0.0123",
		-1.5: "-1.5", 1e-9: "0", -1e-9: "0", 100: "100", math.Inf(1): "–"} {
		require.Equal(t, want, number(v).String(), v)
	}
	require.Equal(t, "–", unknown.String())
}
