package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
	"sluice/internal/service"
	"sluice/internal/webclient"
	"sluice/rtt/alert"
	"sluice/rtt/bpf"
	"sluice/rtt/ipfix"
	"sluice/rtt/metrics"
	"sluice/rtt/otlp"
	"sluice/rtt/queue"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
	"sluice/server"
)

// exports are the metrics of a program as it describes them: some have no value before something has happened.
type exports struct {
	labels map[string][]string // by metric, with those that Prometheus adds
	values map[string][]string // by metric, a space and label; without those that only traffic brings
}

func newExports(t *testing.T, collectors ...prometheus.Collector) exports {
	e := exports{labels: make(map[string][]string), values: make(map[string][]string)}
	e.labels["up"] = []string{"job", "instance"} // Prometheus makes it
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		for _, c := range collectors {
			c.Describe(descs)
		}
	}()
	for d := range descs {
		e.describe(t, d.String())
	}
	registry := prometheus.NewRegistry()
	for _, c := range collectors {
		require.NoError(t, registry.Register(c))
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, value := range f.GetMetric() {
			for _, l := range value.GetLabel() {
				e.allow(f.GetName(), l.GetName(), l.GetValue())
			}
		}
	}
	return e
}

var (
	described = regexp.MustCompile(
		`fqName: "(\w+)", help: ".*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	constLabel = regexp.MustCompile(`(\w+)="`)
)

// describe reads the text of a description.
func (e *exports) describe(t *testing.T, text string) {
	d := described.FindStringSubmatch(text)
	require.NotNil(t, d, text)
	labels := []string{"job", "instance"}
	for _, l := range constLabel.FindAllStringSubmatch(d[2], -1) {
		labels = append(labels, l[1])
	}
	if d[3] != "" {
		labels = append(labels, strings.Split(d[3], ",")...)
	}
	e.labels[d[1]] = labels
}

// allow adds values of a label.
func (e *exports) allow(metric, label string, values ...string) {
	key := metric + " " + label
	e.values[key] = append(e.values[key], values...)
}

// exportedByRelay returns the metrics that a relay serves at /metrics.
func exportedByRelay(t *testing.T) exports {
	f, _ := parse(t, "--dev", "--listen", "127.0.0.1:0", "--fastpath", "off", "--auth-url", "http://127.0.0.1:1/")
	cfg, err := f.config(os.Getenv)
	require.NoError(t, err)
	_, err = f.takeOver(&cfg)
	require.NoError(t, err)
	s, err := server.Listen(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Drain("", 0)) })
	e := newExports(t, slices.Concat(service.ProcessMetrics(), f.auth.metrics, certificateEnds(s.Certificate, nil),
		[]prometheus.Collector{s})...)
	e.allow("sluice_fastpath_total", "reason", reasonsOfKernel(t)...)
	return e
}

// reasonsOfKernel returns the reasons that the kernel programs count: the members of enum reason, in lower case, as
// package fastpath has them.
func reasonsOfKernel(t *testing.T) (names []string) {
	header, err := os.ReadFile(clitest.Path("fastpath/bpf/shared/reason.h"))
	require.NoError(t, err)
	_, list, found := strings.Cut(string(header), "enum reason {")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "};")
	for _, member := range regexp.MustCompile(`(?m)^\t([A-Z_]+),`).FindAllStringSubmatch(list, -1) {
		names = append(names, strings.ToLower(member[1]))
	}
	return names[:len(names)-1] // the last one is their number
}

// exportedByMonitor returns the metrics that a monitor serves at /metrics.
func exportedByMonitor(t *testing.T) exports {
	return newExports(t, append(service.ProcessMetrics(), monitorMetrics(t)...)...)
}

// monitorMetrics returns the metrics of a monitor that has seen some of everything.
func monitorMetrics(t *testing.T) []prometheus.Collector {
	interval := reporttest.Parts()
	m, p, h := metrics.New(report.Keys{}), &interval.Prefixes[0], reporttest.Logarithmic().Prefixes[0].RTT
	p.RTT, p.PeerRTT, p.OneDirection, p.Queries, p.Received.QUIC = h, h, h, h, p.Sent.QUIC
	p.ByLoad, p.PeerByLoad = report.Load{Idle: h, Loaded: h}, report.Load{Idle: h, Loaded: h}
	m.Follow(func() (report.Counters, error) {
		c := report.Counters{Transports: interval.Transports, ECN: interval.ECN}
		for _, outcome := range bpf.Outcomes {
			c.Outcomes = append(c.Outcomes, report.NamedCount{Name: outcome.Label})
		}
		for _, tally := range bpf.Tallies {
			c.Events = append(c.Events, report.NamedCount{Name: tally.Label})
		}
		return c, nil
	})
	require.NoError(t, errors.Join(m.Interval(interval), m.Sample(reporttest.TCP()), m.Sample(reporttest.DNS()),
		m.Flow(reporttest.Opening())))
	q, events := queue.New(queue.Config{}), queue.NewEvents(queue.EventsConfig{Sink: new(reporttest.Sink)})
	t.Cleanup(func() { require.NoError(t, errors.Join(q.Close(), events.Close())) })
	const nobody = "http://127.0.0.1:1"
	messages, err := otlp.New(otlp.Config{URL: nobody})
	require.NoError(t, err)
	alerts, err := alert.NewSender(webclient.Config{URL: nobody}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		messages.Close(ended)
		alerts.Close(ended)
	})
	records, err := ipfix.New(ipfix.Config{Address: "127.0.0.1:1"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, records.Close()) })
	detector := alert.New(alert.Config{})
	return []prometheus.Collector{m, q, events, messages, records, alerts, detector}
}

// A query is an expression of PromQL, as a file of dist has it.
type query struct {
	expr    string
	legend  []string        // labels that its legend or its annotations name
	defined map[string]bool // variables of its dashboard
}

var (
	quoted     = regexp.MustCompile(`"[^"]*"`)
	metricName = regexp.MustCompile(`\b(?:up|ALERTS|(?:sluice|process|go)_\w+)\b`)
	// selector matches a metric with the conditions for its labels, and matcher one condition.
	selector = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	// grouping matches the labels by which sums are told apart, and joining those by which two sides are joined.
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)\s*\(`)
	joining  = regexp.MustCompile(`\bon \(([^)]*)\)`)
	// summing matches operators that leave no label if no grouping follows.
	summing = regexp.MustCompile(`\b(?:sum|max|min|avg|count)\s*\(`)
	// unread matches syntax that check does not understand.
	unread = regexp.MustCompile(`\b(?:without|ignoring|group_left|group_right|label_replace|label_join)\b`)
	// labelValues matches the query of a variable.
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	variable    = regexp.MustCompile(`\$\{?(\w+)`)
	legendLabel = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// check compares the metrics of a query, their labels and the values of these with the metrics of the program that
// Prometheus scrapes as a job.
func (e *exports) check(t *testing.T, job string, q query) {
	t.Helper()
	require.NotRegexp(t, unread, q.expr)
	for _, v := range variable.FindAllStringSubmatch(q.expr, -1) {
		require.True(t, q.defined[v[1]], "the dashboard has no variable %s: %s", v[1], q.expr)
	}
	if v := labelValues.FindStringSubmatch(q.expr); v != nil {
		q.expr, q.legend = v[1], []string{v[2]}
	}
	require.NotEmpty(t, metricsIn(q.expr), q.expr)
	e.requireLabels(t, q.expr) // that is, the metrics
	for _, group := range grouping.FindAllStringSubmatchIndex(q.expr, -1) {
		e.requireLabels(t, inParentheses(q.expr[group[1]:]), list(q.expr[group[2]:group[3]])...)
	}
	for _, joined := range joining.FindAllStringSubmatch(q.expr, -1) {
		e.requireLabels(t, q.expr, list(joined[1])...)
	}
	for _, s := range selector.FindAllStringSubmatch(q.expr, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			e.requireLabels(t, s[1], m[1])
			if m[1] == "job" && m[3] != "$job" {
				require.Equal(t, job, m[3], q.expr) // as dist/README.md has it
			} else if !strings.HasPrefix(m[3], "$") {
				e.requireValues(t, s[1], m)
			}
		}
	}
	for _, label := range q.legend {
		require.Contains(t, e.left(q.expr), label, q.expr)
	}
}

func metricsIn(expr string) []string {
	return metricName.FindAllString(quoted.ReplaceAllString(expr, ""), -1)
}

func list(labels string) []string { return strings.Split(labels, ", ") }

// inParentheses returns the text before the parenthesis that closes an open one.
func inParentheses(text string) string {
	depth := 1
	for i, c := range quoted.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) }) {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return text[:i]
		}
	}
	return text
}

// requireLabels requires that all metrics in an expression are exported, and have the labels.
func (e *exports) requireLabels(t *testing.T, expr string, labels ...string) {
	t.Helper()
	for _, name := range metricsIn(expr) {
		require.True(t, e.labels[name] != nil, "%s is not exported: %s", name, expr)
		for _, label := range labels {
			require.Contains(t, e.labels[name], label, "%s: %s", name, expr)
		}
	}
}

// requireValues requires that each alternative of a matcher is a value of the label, or matches one.
func (e *exports) requireValues(t *testing.T, metric string, m []string) {
	t.Helper()
	known := e.values[metric+" "+m[1]]
	if !strings.HasSuffix(m[2], "~") {
		require.Contains(t, known, m[3], "%s: %s", metric, m[1])
		return
	}
	for alternative := range strings.SplitSeq(m[3], "|") {
		pattern, err := regexp.Compile("^(?:" + alternative + ")$")
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(known, pattern.MatchString), "%s: %s: %s", metric, m[1], alternative)
	}
}

// left returns the labels that the result of an expression has: the labels of its first grouping, or else of its first
// metric.
func (e *exports) left(expr string) []string {
	if group := grouping.FindStringSubmatch(expr); group != nil {
		return list(group[1])
	}
	if summing.MatchString(expr) {
		return nil
	}
	return e.labels[metricsIn(expr)[0]]
}

// queriesIn returns the queries of rules or of a dashboard.
func queriesIn(t *testing.T, file string) (all []query) {
	content := readYAML(t, file)
	defined := map[string]bool{"__rate_interval": true}
	walk(content, func(m map[string]any) {
		if name, ok := m["name"].(string); ok && m["type"] != nil {
			defined[name] = true
		}
	})
	walk(content, func(m map[string]any) {
		q := query{defined: defined}
		q.expr, _ = m["expr"].(string)
		if text, ok := m["query"].(string); ok && strings.HasPrefix(text, "label_values") {
			q.expr = text
		}
		texts := valuesOf(m["annotations"], "summary")
		texts = append(append(texts, valuesOf(m["annotations"], "description")...), valuesOf(m, "legendFormat")...)
		for _, l := range legendLabel.FindAllStringSubmatch(strings.Join(texts, " "), -1) {
			q.legend = append(q.legend, l[1])
		}
		if q.expr != "" {
			all = append(all, q)
		}
	})
	return all
}

// walk calls fn with all mappings.
func walk(content any, fn func(map[string]any)) {
	switch c := content.(type) {
	case map[string]any:
		fn(c)
		for _, key := range slices.Sorted(maps.Keys(c)) {
			walk(c[key], fn)
		}
	case []any:
		for _, v := range c {
			walk(v, fn)
		}
	}
}

// valuesOf returns all strings that are values of a key.
func valuesOf(content any, key string) (values []string) {
	walk(content, func(m map[string]any) {
		if s, ok := m[key].(string); ok {
			values = append(values, s)
		}
	})
	return values
}

// Names of the dashboards and of the files with alerts, by the job that they are for.
var distFiles = map[string][]string{
	"sluice":     {"dist/prometheus/sluice.rules.yml", "dist/grafana/sluice.json"},
	"sluice-rtt": {"dist/prometheus/sluice-rtt.rules.yml", "dist/grafana/sluice-rtt.json"},
}

// TestDistMetrics compares the metrics in dashboards and alerts, their labels and the values of these with those that
// relays and monitors export.
func TestDistMetrics(t *testing.T) {
	for job, exported := range map[string]func(*testing.T) exports{
		"sluice": exportedByRelay, "sluice-rtt": exportedByMonitor,
	} {
		t.Run(job, func(t *testing.T) {
			known := exported(t)
			known.labels["ALERTS"] = []string{"alertname", "alertstate", "severity", "job", "instance"}
			known.allow("ALERTS", "alertstate", "pending", "firing")
			known.allow("ALERTS", "alertname", valuesOf(readYAML(t, distFiles[job][0]), "alert")...)
			for _, file := range distFiles[job] {
				queries := queriesIn(t, file)
				require.Greater(t, len(queries), 5, file)
				for _, q := range queries {
					known.check(t, job, q)
				}
			}
		})
	}
}

// packageOf names the package of the program with a job.
var packageOf = map[string]string{
	"sluice": "dist/packages/sluice-relay.yaml", "sluice-rtt": "dist/packages/sluice-rtt.yaml",
}

// TestRulesAreShipped looks for the files with alerts, the jobs that these name, and the dashboards in the packages and
// their description.
func TestRulesAreShipped(t *testing.T) {
	text, err := os.ReadFile(clitest.Path("dist/README.md"))
	require.NoError(t, err)
	description := string(text)
	var files []string
	for job, two := range distFiles {
		files = append(files, two...)
		require.Regexp(t, `(?m)^ +- job_name: `+job+`\b`, description)
		rules, dashboard := filepath.Base(two[0]), filepath.Base(two[1])
		shipped := valuesOf(readYAML(t, packageOf[job]), "dst")
		require.Contains(t, shipped, "/usr/share/doc/sluice/"+rules)
		require.Contains(t, shipped, "/usr/share/doc/sluice/grafana-"+dashboard)
		require.Contains(t, description, "`prometheus/"+rules+"`")
		require.Contains(t, description, "`grafana/"+dashboard+"`")
		require.Regexp(t, `(?m)^ +rule_files: \[.*/usr/share/doc/sluice/`+rules, description)
	}
	for _, pattern := range []string{"dist/prometheus/*.rules.yml", "dist/grafana/*.json"} {
		found, err := filepath.Glob(clitest.Path(pattern))
		require.NoError(t, err)
		for _, file := range found {
			require.Contains(t, files, filepath.Join(filepath.Dir(pattern), filepath.Base(file)))
		}
	}
}

// TestDashboards checks that panels have an id of their own, a title and an expression, and do not overlap.
func TestDashboards(t *testing.T) {
	for _, files := range distFiles {
		t.Run(files[1], func(t *testing.T) { checkDashboard(t, files[1]) })
	}
}

// Prometheus reads the queries of dashboards.
func TestQueriesOfDashboards(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs promtool (package prometheus)")
	}
	require.NoError(t, err)
	var rules []map[string]string
	for _, files := range distFiles {
		for _, q := range queriesIn(t, files[1]) {
			if !labelValues.MatchString(q.expr) {
				expr := strings.NewReplacer("$__rate_interval", "10s", "$", "").Replace(q.expr)
				rules = append(rules, map[string]string{"record": fmt.Sprint("query", len(rules)), "expr": expr})
			}
		}
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "all", "rules": rules}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yml") // JSON is YAML, too
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func checkDashboard(t *testing.T, file string) {
	text, err := os.ReadFile(clitest.Path(file))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Interval                 string // the least step
			GridPos                  struct{ X, Y, W, H int }
			Targets                  []struct{ RefID, Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	ids, cells := make(map[int]bool), make(map[[2]int]string)
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], "panel %q has the id of another", p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		require.Equal(t, p.Type == "row", p.Description == "", p.Title)
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if strings.Contains(target.Expr, "rate(sluice_rtt_prefix_") {
				// The unit has --aggregate 60. A shorter window may have no change of these counters.
				require.Equal(t, "2m", p.Interval, p.Title)
			}
			require.False(t, refs[target.RefID], "%q: two queries have one name", p.Title)
			refs[target.RefID] = true
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, cells[cell], "%q covers another panel", p.Title)
				require.Less(t, cell[0], 24)
				cells[cell] = p.Title
			}
		}
	}
}
