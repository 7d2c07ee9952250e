package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice/lab/bench/result"
)

// table is a table of tables.md.
type table struct {
	Title   string
	Columns []string
	Rows    [][]string // the first cells name the scenario or the metric; an empty cell repeats the cell above
	Notes   []string
}

// tables returns the tables of a kind: the metrics that rank systems, the quantiles of the distributions, and the
// breakdowns.
func (v view) tables(kind string) []table {
	scenarios := v.OfKind(kind)
	out := []table{v.metricTable(scenarios, v.ranked(scenarios))}
	for _, name := range names(scenarios, distributionsOf) {
		if !strings.Contains(name, ".") { // a part of another one
			out = append(out, v.quantileTable(scenarios, name))
		}
	}
	for _, name := range names(scenarios, breakdownsOf) {
		out = append(out, v.breakdownTable(scenarios, name))
	}
	return slices.DeleteFunc(out, func(t table) bool { return len(t.Rows) == 0 })
}

// ranked returns the metrics that rank systems, without the quantiles of distributions.
func (v view) ranked(scenarios []result.Scenario) []string {
	distributions := names(scenarios, distributionsOf)
	return slices.DeleteFunc(names(scenarios, metricsOf), func(name string) bool {
		_, _, isQuantile := quantileOf(name, distributions)
		return isQuantile || v.Metric(name).Better == 0
	})
}

// metricTable returns a table with a row for each scenario and system. The notes say why a system has no numbers.
func (v view) metricTable(scenarios []result.Scenario, metrics []string) table {
	t := table{Title: "Medians (lowest–highest of the runs)", Columns: []string{"scenario", "system", "runs"}}
	for _, name := range metrics {
		m := v.Metric(name)
		t.Columns = append(t.Columns, result.WithUnit(m.Title, m.Unit))
	}
	for _, s := range scenarios {
		for i, sum := range s.Summaries {
			row := []string{firstOnly(s.Title, i), sum.System, strconv.Itoa(sum.Runs)}
			for _, name := range metrics {
				row = append(row, statistic(sum.Metrics, name))
			}
			t.Rows = append(t.Rows, row)
		}
		t.Notes = append(t.Notes, notes(s)...)
	}
	return t
}

// notes returns the facts that a reader of the numbers needs, and why numbers are missing.
func notes(s result.Scenario) []string {
	var out []string
	for _, sum := range s.Summaries {
		if sum.Unusable != "" {
			out = append(out, fmt.Sprintf("%s, %s: no number: %s", s.Title, sum.System, sum.Unusable))
		}
		if noise := sum.Noise(); noise != "" {
			out = append(out, fmt.Sprintf("%s, %s: %s", s.Title, sum.System, noise))
		}
		for _, n := range sum.Notes {
			note := fmt.Sprintf("%s, %s: %s", s.Title, sum.System, n)
			if isCommon(s, n) {
				note = fmt.Sprintf("%s: %s", s.Title, n)
			}
			if !slices.Contains(out, note) {
				out = append(out, note)
			}
		}
	}
	for _, run := range s.Runs {
		if run.Unusable != "" && s.Summary(run.System).Unusable == "" {
			out = append(out, fmt.Sprintf("%s, %s: run %d does not count: %s",
				s.Title, run.System, run.Repetition, run.Unusable))
		}
	}
	return out
}

// isCommon reports whether a note is about all systems.
func isCommon(s result.Scenario, note string) bool {
	lacksIt := func(sum result.Summary) bool { return !slices.Contains(sum.Notes, note) }
	return len(s.Summaries) > 1 && !slices.ContainsFunc(s.Summaries, lacksIt)
}

// quantileTable returns a table of the metrics that are quantiles of a distribution.
func (v view) quantileTable(scenarios []result.Scenario, distribution string) table {
	m := v.Metric(distribution)
	t := table{
		Title: result.WithUnit(m.Title, m.Unit), Columns: []string{"scenario", "system", "values"},
	}
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
			t.Rows = append(t.Rows, append(row, result.Number(slices.Max(d.Value)).String()))
			first++
		}
	}
	return t
}

// breakdownTable returns a table with a row for each part, the largest first.
func (v view) breakdownTable(scenarios []result.Scenario, name string) table {
	m := v.Metric(name)
	t := table{Title: result.WithUnit(m.Title, m.Unit), Columns: []string{"part"}}
	var columns []map[string]result.Statistic
	for _, s := range scenarios {
		for _, sum := range s.Summaries {
			if parts := sum.Breakdowns[name]; len(parts) > 0 {
				t.Columns = append(t.Columns, s.Title+", "+sum.System)
				columns = append(columns, parts)
			}
		}
	}
	for _, part := range byTotal(columns) {
		row := []string{part}
		for _, c := range columns {
			row = append(row, statistic(c, part))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// byTotal returns the names of parts, the largest first.
func byTotal(columns []map[string]result.Statistic) []string {
	total := map[string]float64{}
	for _, c := range columns {
		for part, s := range c {
			total[part] += s.Median
		}
	}
	parts := slices.Sorted(maps.Keys(total))
	slices.SortStableFunc(parts, func(a, b string) int { return cmp.Compare(total[b], total[a]) })
	return parts
}

// hostTable returns a table of the machines, if there was no lab.
func (v view) hostTable() table {
	t := table{Columns: []string{"machine of", "is", "device", "driver", "MTU", "receive queues", "RPS", "offloads"}}
	for _, h := range v.Hosts {
		t.Rows = append(t.Rows, []string{
			h.Role, h.Machine.String(), h.Device.Name, h.Device.Driver, strconv.Itoa(h.Device.MTU),
			strconv.Itoa(h.Device.Queues), h.Device.RPS, h.Machine.OffloadList(),
		})
	}
	return t
}

// firstOnly returns s for the first row, and an empty cell for the rows that repeat it.
func firstOnly(s string, i int) string {
	if i > 0 {
		return ""
	}
	return s
}

func statistic(of map[string]result.Statistic, name string) string {
	s, ok := of[name]
	if !ok {
		return result.Unknown.String()
	}
	return s.String()
}

func (t table) markdown(w io.Writer) {
	row := func(cells []string) {
		for i, c := range cells {
			cells[i] = escapeMarkdown(c)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	columns := append([]string{}, t.Columns...)
	row(columns)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(columns)))
	for _, cells := range t.Rows {
		row(append([]string{}, cells...))
	}
	fmt.Fprintln(w)
	for _, n := range t.Notes {
		fmt.Fprint(w, wrap("* "+escapeMarkdown(n), "  "))
	}
	if len(t.Notes) > 0 {
		fmt.Fprintln(w)
	}
}
