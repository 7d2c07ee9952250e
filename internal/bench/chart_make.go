package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// quantileOf splits the name of a metric that is a quantile of a distribution.
func quantileOf(metric string, distributions []string) (distribution, quantile string, ok bool) {
	for _, d := range distributions {
		if q, ok := strings.CutPrefix(metric, d+".p"); ok {
			return d, "p" + q, true
		}
	}
	return "", "", false
}

// cdfs are a chart for each scenario and distribution.
func (r Report) cdfs(kind string, scenarios []Scenario) []chart {
	var out []chart
	for _, name := range names(scenarios, distributionsOf) {
		m := r.metric(name)
		for _, s := range scenarios {
			c := chart{ID: "cdf " + s.Name + " " + name, kind: kind, Figure: "distribution", Form: cdf, Title: titled(m.Title, s.Title),
				X: axis{Title: m.Title, Unit: m.Unit, Log: true}, Y: axis{Title: "fraction that does not exceed it"}}
			for i, system := range r.Systems {
				if d, ok := s.summary(system.Name).Distributions[name]; ok {
					c.Traces = append(c.Traces, trace{Name: system.Name, System: i, X: numbers(d.Value), Y: numbers(d.At)})
				}
			}
			out = append(out, c)
		}
	}
	return out
}

func subscribers(s Scenario) string {
	if s.Params.Subscribers == 0 {
		return s.Title
	}
	return strconv.Itoa(s.Params.Subscribers)
}

// overSubscribers is each metric by number of subscribers: bars for quantiles, and where but one number was measured; else lines.
func (r Report) overSubscribers(kind string, scenarios []Scenario) []chart {
	var out []chart
	all, distributions := groups(scenarios), names(scenarios, distributionsOf)
	for _, name := range names(scenarios, metricsOf) {
		if r.metric(name).Better == 0 {
			continue // tells how sure the rest is, which tables do
		}
		if _, _, ok := quantileOf(name, distributions); ok {
			for _, g := range all {
				out = append(out, r.metricBars(kind, name, g))
			}
			continue
		}
		if !slices.ContainsFunc(all, func(g group) bool { return len(g.scenarios) > 1 }) {
			out = append(out, r.metricBars(kind, name, group{scenarios: scenarios}))
			continue
		}
		for _, g := range all {
			out = append(out, r.metricLines(kind, name, g))
		}
	}
	return out
}

func (r Report) metricLines(kind, name string, g group) chart {
	m := r.metric(name)
	c := chart{ID: fmt.Sprint(kind, " ", name, " ", g.title), kind: kind, Figure: "by subscribers", Form: lines,
		Title: titled(m.Title, g.title), X: axis{Title: "subscribers", Log: true}, Y: axis{Unit: m.Unit}}
	for i, system := range r.Systems {
		t := trace{Name: system.Name, System: i}
		for _, s := range g.scenarios {
			if stat, ok := s.summary(system.Name).Metrics[name]; ok {
				t.add(float64(s.Params.Subscribers), stat)
			}
		}
		if len(t.Y) > 0 {
			c.Traces = append(c.Traces, t)
		}
	}
	return c
}

func (r Report) metricBars(kind, name string, g group) chart {
	m := r.metric(name)
	c := chart{ID: fmt.Sprint(kind, " ", name, " ", g.title), kind: kind, Figure: "by scenario", Form: bars,
		Title: titled(m.Title, g.title), Y: axis{Unit: m.Unit}}
	label := func(s Scenario) string { return s.Title }
	if len(g.scenarios) > 1 && g.scenarios[0].Params.Subscribers != 0 && len(groups(g.scenarios)) == 1 {
		c.X.Title, label = "subscribers", subscribers
	}
	for _, s := range g.scenarios {
		c.X.Categories = append(c.X.Categories, label(s))
	}
	for i, system := range r.Systems {
		t := trace{Name: system.Name, System: i}
		for x, s := range g.scenarios {
			if stat, ok := s.summary(system.Name).Metrics[name]; ok {
				t.add(float64(x), stat)
			}
		}
		if len(t.Y) > 0 {
			c.Traces = append(c.Traces, t)
		}
	}
	return c
}

// maxParts is how many parts of a stack have a colour of their own; the rest is shown as one.
const maxParts = 7

// stacks are breakdowns: for each scenario and system, a bar.
func (r Report) stacks(kind string, scenarios []Scenario) []chart {
	var out []chart
	for _, name := range names(scenarios, breakdownsOf) {
		for _, g := range groups(scenarios) {
			out = append(out, r.stack(kind, name, g))
		}
	}
	return out
}

func (r Report) stack(kind, name string, g group) chart {
	m := r.metric(name)
	c := chart{ID: fmt.Sprint("breakdown ", kind, " ", name, " ", g.title), kind: kind, Figure: "breakdown", Form: stack,
		Title: titled(m.Title, g.title), X: axis{Title: "subscribers, system"}, Y: axis{Unit: m.Unit}}
	var columns []map[string]Statistic
	for _, s := range g.scenarios {
		for i, system := range r.Systems {
			if parts := s.summary(system.Name).Breakdowns[name]; len(parts) > 0 {
				columns = append(columns, parts)
				c.X.Categories = append(c.X.Categories, subscribers(s)+", "+system.Name)
				c.X.Systems = append(c.X.Systems, i)
			}
		}
	}
	shown, rest := largestParts(columns)
	for _, part := range shown {
		c.Traces = append(c.Traces, partTrace(part, []string{part}, columns))
	}
	if len(rest) > 0 {
		c.Traces = append(c.Traces, partTrace("all others", rest, columns))
	}
	return c
}

// largestParts splits the names of parts into the largest, the largest first, and the rest.
func largestParts(columns []map[string]Statistic) (shown, rest []string) {
	total := map[string]float64{}
	for _, c := range columns {
		for part, s := range c {
			total[part] += s.Median
		}
	}
	shown = slices.Sorted(maps.Keys(total))
	slices.SortStableFunc(shown, func(a, b string) int { return cmp.Compare(total[b], total[a]) })
	n := len(shown)
	if n > maxParts+1 {
		n = maxParts
	}
	return shown[:n], shown[n:]
}

func partTrace(name string, parts []string, columns []map[string]Statistic) trace {
	t := trace{Name: name, System: noSystem}
	for x, c := range columns {
		var sum float64
		for _, part := range parts {
			sum += c[part].Median
		}
		t.X, t.Y = append(t.X, number(x)), append(t.Y, number(sum))
	}
	return t
}

// overTime is each series of the first usable run of each system. A series that is the same for all systems, such as the rate of
// a link, is shown for comparison with all series of its unit.
func (r Report) overTime(kind string, scenarios []Scenario) []chart {
	var out []chart
	for _, s := range scenarios {
		runs := s.firstRuns(r.Systems)
		common := commonSeries(runs)
		for _, name := range seriesNames(runs) {
			m := r.metric(name)
			if slices.Contains(common, name) {
				continue
			}
			c := chart{ID: "series " + s.Name + " " + name, kind: kind, Figure: "over time", Form: lines, Title: titled(m.Title, s.Title),
				X: axis{Title: "time", Unit: "s"}, Y: axis{Unit: m.Unit}}
			if kind == KindCapacity {
				c.X = axis{Title: "subscribers"} // see quantities
			}
			for _, run := range runs {
				c.Traces = append(c.Traces, seriesTrace(run.System, r.system(run.System), run.Series[name]))
			}
			for _, other := range common {
				if o := r.metric(other); o.Unit == m.Unit {
					c.Traces = append(c.Traces, seriesTrace(o.Title, noSystem, runs[0].Series[other]))
				}
			}
			out = append(out, c)
		}
	}
	return out
}

func seriesTrace(name string, system int, s Series) trace {
	return trace{Name: name, System: system, X: numbers(s.Time), Y: numbers(s.Value)}
}

// firstRuns are the first usable run of each system that has one, in the order of the systems.
func (s Scenario) firstRuns(systems []System) []Run {
	var out []Run
	for _, system := range systems {
		i := slices.IndexFunc(s.Runs, func(r Run) bool { return r.System == system.Name && r.Unusable == "" })
		if i >= 0 {
			out = append(out, s.Runs[i])
		}
	}
	return out
}

func seriesNames(runs []Run) []string {
	var out []string
	for _, r := range runs {
		for name := range r.Series {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// commonSeries are those that several systems have, all with the same values.
func commonSeries(runs []Run) []string {
	if len(runs) < 2 {
		return nil
	}
	var out []string
	for name, s := range runs[0].Series {
		same := !slices.ContainsFunc(runs, func(r Run) bool { return !slices.Equal(r.Series[name].Value, s.Value) })
		if same {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
