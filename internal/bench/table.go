package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table is one that the page and the summary show.
type table struct {
	Title   string
	Columns []string
	Rows    [][]string // the first cells name what was measured; an empty cell repeats the one above it
	Notes   []string
	Aside   bool // of interest to those who doubt the others
	Detail  bool // about a part of what another table is about
}

// tables are the metrics, the quantiles of the distributions, and the breakdowns of a kind.
func (r Report) tables(kind string) []table {
	scenarios := r.ofKind(kind)
	judged, observed := r.plainMetrics(scenarios)
	var out []table
	out = append(out, r.metricTable(scenarios, judged))
	for _, name := range names(scenarios, distributionsOf) {
		out = append(out, r.quantileTable(scenarios, name))
	}
	for _, name := range names(scenarios, breakdownsOf) {
		out = append(out, r.breakdownTable(scenarios, name))
	}
	if len(observed) > 0 {
		t := r.metricTable(scenarios, observed)
		t.Title, t.Notes, t.Aside = "What was observed besides", nil, true
		out = append(out, t)
	}
	return slices.DeleteFunc(out, func(t table) bool { return len(t.Rows) == 0 })
}

// plainMetrics are those that are no quantiles of a distribution: those by which systems are better or worse, and others.
func (r Report) plainMetrics(scenarios []Scenario) (judged, observed []string) {
	distributions := names(scenarios, distributionsOf)
	for _, name := range names(scenarios, metricsOf) {
		_, _, isQuantile := quantileOf(name, distributions)
		switch {
		case isQuantile:
		case r.metric(name).Better == 0:
			observed = append(observed, name)
		default:
			judged = append(judged, name)
		}
	}
	return judged, observed
}

// metricTable has a row for each scenario and system, also for those without numbers, with the reason.
func (r Report) metricTable(scenarios []Scenario, metrics []string) table {
	t := table{Title: "Medians (lowest–highest of the runs)", Columns: []string{"scenario", "system", "runs"}}
	for _, name := range metrics {
		m := r.metric(name)
		t.Columns = append(t.Columns, withUnit(m.Title, m.Unit))
	}
	for _, s := range scenarios {
		for i, sum := range s.Summaries {
			row := []string{firstOnly(s.Title, i), sum.System, strconv.Itoa(sum.Runs)}
			for _, name := range metrics {
				row = append(row, statistic(sum.Metrics, name))
			}
			t.Rows = append(t.Rows, row)
		}
		t.Notes = append(t.Notes, s.notes()...)
	}
	return t
}

// notes are what readers of the numbers have to know, and why numbers are missing.
func (s Scenario) notes() []string {
	var out []string
	for _, sum := range s.Summaries {
		if sum.Unusable != "" {
			out = append(out, fmt.Sprintf("%s, %s: no number: %s", s.Title, sum.System, sum.Unusable))
		}
		if noise := sum.noise(); noise != "" {
			out = append(out, fmt.Sprintf("%s, %s: %s", s.Title, sum.System, noise))
		}
		for _, n := range sum.Notes {
			note := fmt.Sprintf("%s, %s: %s", s.Title, sum.System, n)
			if s.common(n) {
				note = fmt.Sprintf("%s: %s", s.Title, n)
			}
			if !slices.Contains(out, note) {
				out = append(out, note)
			}
		}
	}
	for _, run := range s.Runs {
		if run.Unusable != "" && s.summary(run.System).Unusable == "" {
			out = append(out, fmt.Sprintf("%s, %s: run %d does not count: %s", s.Title, run.System, run.Repetition, run.Unusable))
		}
	}
	return out
}

// common reports whether a note is about all systems.
func (s Scenario) common(note string) bool {
	return len(s.Summaries) > 1 && !slices.ContainsFunc(s.Summaries, func(sum Summary) bool { return !slices.Contains(sum.Notes, note) })
}

// quantileTable has the metrics that are quantiles of a distribution.
func (r Report) quantileTable(scenarios []Scenario, distribution string) table {
	m := r.metric(distribution)
	t := table{Title: withUnit(m.Title, m.Unit), Columns: []string{"scenario", "system", "values"}, Detail: strings.Contains(distribution, ".")}
	var quantiles []string
	for _, name := range names(scenarios, metricsOf) {
		if d, q, ok := quantileOf(name, []string{distribution}); ok && d == distribution {
			quantiles = append(quantiles, q)
			t.Columns = append(t.Columns, q)
		}
	}
	t.Columns = append(t.Columns, "highest")
	for _, s := range scenarios {
		first := 0
		for _, sum := range s.Summaries {
			d := sum.Distributions[distribution]
			if len(d.Value) == 0 {
				continue
			}
			row := []string{firstOnly(s.Title, first), sum.System, strconv.Itoa(d.Count)}
			for _, q := range quantiles {
				row = append(row, statistic(sum.Metrics, distribution+"."+q))
			}
			t.Rows = append(t.Rows, append(row, number(slices.Max(d.Value)).String()))
			first++
		}
	}
	return t
}

// breakdownTable has a row for each part, the largest first.
func (r Report) breakdownTable(scenarios []Scenario, name string) table {
	m := r.metric(name)
	t := table{Title: withUnit(m.Title, m.Unit), Columns: []string{"part"}}
	var columns []map[string]Statistic
	for _, s := range scenarios {
		for _, sum := range s.Summaries {
			if parts := sum.Breakdowns[name]; len(parts) > 0 {
				t.Columns = append(t.Columns, s.Title+", "+sum.System)
				columns = append(columns, parts)
			}
		}
	}
	shown, rest := largestParts(columns)
	for _, part := range slices.Concat(shown, rest) {
		row := []string{part}
		for _, c := range columns {
			row = append(row, statistic(c, part))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// firstOnly leaves a repeated cell empty.
func firstOnly(s string, i int) string {
	if i > 0 {
		return ""
	}
	return s
}

func statistic(of map[string]Statistic, name string) string {
	s, ok := of[name]
	if !ok {
		return unknown.String()
	}
	return s.String()
}

// String is the median, with the range if there is one.
func (s Statistic) String() string {
	median, low, high := number(s.Median).String(), number(s.Min).String(), number(s.Max).String()
	if low == high || !number(s.Min).finite() || !number(s.Max).finite() {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, low, high)
}
