package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/lab/bench/chart"
	"sluice/lab/bench/result"
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

// cdfs returns a chart for each scenario and distribution.
func (v view) cdfs(kind string, scenarios []result.Scenario) []chart.Chart {
	var out []chart.Chart
	for _, name := range names(scenarios, distributionsOf) {
		m := v.Metric(name)
		for _, s := range scenarios {
			c := chart.Chart{ID: "cdf " + s.Name + " " + name, Kind: kind, Figure: "distribution", Form: chart.CDF,
				Title: joinTitle(m.Title, s.Title),
				X:     chart.Axis{Title: m.Title, Unit: m.Unit, Log: true},
				Y:     chart.Axis{Title: "fraction that does not exceed it"}}
			for i, system := range v.Systems {
				if d, ok := s.Summary(system.Name).Distributions[name]; ok {
					x, y := result.Numbers(d.Value), result.Numbers(d.At)
					c.Traces = append(c.Traces, chart.Trace{Name: system.Name, System: i, X: x, Y: y})
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// overSubscribers returns charts of each metric by number of subscribers. Quantiles are bars, and so are metrics that
// were measured with a single number; the others are lines.
func (v view) overSubscribers(kind string, scenarios []result.Scenario) []chart.Chart {
	var out []chart.Chart
	all, distributions := groups(scenarios), names(scenarios, distributionsOf)
	for _, name := range names(scenarios, metricsOf) {
		if v.Metric(name).Better == 0 {
			continue // it shows how reliable the others are: only tables have it
		}
		if _, _, ok := quantileOf(name, distributions); ok && !byLink(scenarios) {
			for _, g := range all {
				out = append(out, v.metricBars(kind, name, g))
			}
			continue
		}
		if !slices.ContainsFunc(all, func(g group) bool { return len(g.scenarios) > 1 }) {
			out = append(out, v.metricBars(kind, name, group{scenarios: scenarios}))
			continue
		}
		for _, g := range all {
			out = append(out, v.metricLines(kind, name, g))
		}
	}
	return out
}

// byLink reports whether scenarios differ in the link of a subscriber.
func byLink(scenarios []result.Scenario) bool {
	return !slices.ContainsFunc(scenarios, func(s result.Scenario) bool { return s.Params.Link == "" })
}

func (v view) metricLines(kind, name string, g group) chart.Chart {
	m := v.Metric(name)
	id := fmt.Sprint(kind, " ", name, " ", g.title)
	title, number := g.axis()
	c := chart.Chart{ID: id, Kind: kind, Figure: "by " + title, Form: chart.Lines,
		Title: joinTitle(m.Title, g.title), X: chart.Axis{Title: title, Log: true}, Y: chart.Axis{Unit: m.Unit}}
	for i, system := range v.Systems {
		t := chart.Trace{Name: system.Name, System: i}
		for _, s := range g.scenarios {
			if stat, ok := s.Summary(system.Name).Metrics[name]; ok {
				t.Add(float64(number(s)), stat)
			}
		}
		if len(t.Y) > 0 {
			c.Traces = append(c.Traces, t)
		}
	}
	return c
}

func (v view) metricBars(kind, name string, g group) chart.Chart {
	m := v.Metric(name)
	id := fmt.Sprint(kind, " ", name, " ", g.title)
	c := chart.Chart{ID: id, Kind: kind, Figure: "by scenario", Form: chart.Bars,
		Title: joinTitle(m.Title, g.title), Y: chart.Axis{Unit: m.Unit}}
	label := func(s result.Scenario) string { return s.Title }
	title, number := g.axis()
	if len(g.scenarios) > 1 && number(g.scenarios[0]) != 0 && len(groups(g.scenarios)) == 1 {
		c.X.Title, label = title, func(s result.Scenario) string { return strconv.Itoa(number(s)) }
	} else if byLink(g.scenarios) {
		label = func(s result.Scenario) string { return s.Params.Link }
	}
	for _, s := range g.scenarios {
		c.X.Categories = append(c.X.Categories, label(s))
	}
	for i, system := range v.Systems {
		t := chart.Trace{Name: system.Name, System: i}
		for x, s := range g.scenarios {
			if stat, ok := s.Summary(system.Name).Metrics[name]; ok {
				t.Add(float64(x), stat)
			}
		}
		if len(t.Y) > 0 {
			c.Traces = append(c.Traces, t)
		}
	}
	return c
}

// overTime returns a chart of each series, with the first usable run of each system.
func (v view) overTime(kind string, scenarios []result.Scenario) []chart.Chart {
	var out []chart.Chart
	for _, s := range scenarios {
		runs := firstRuns(s, v.Systems)
		for _, name := range seriesNames(runs) {
			m := v.Metric(name)
			c := chart.Chart{ID: "series " + s.Name + " " + name, Kind: kind, Figure: "over time", Form: chart.Lines,
				Title: joinTitle(m.Title, s.Title),
				X:     chart.Axis{Title: "time", Unit: "s"}, Y: chart.Axis{Unit: m.Unit}}
			if strings.HasPrefix(name, result.KindCapacity+".") {
				c.X = chart.Axis{Title: "subscribers"} // they take the place of time
			}
			for _, run := range runs {
				s := run.Series[name]
				c.Traces = append(c.Traces, chart.Trace{
					Name: run.System, System: v.systemIndex(run.System), X: result.Numbers(s.Time),
					Y: result.Numbers(s.Value),
				})
			}
			out = append(out, c)
		}
	}
	return out
}

// firstRuns returns the first usable run of each system that has one, in the order of the systems.
func firstRuns(s result.Scenario, systems []result.System) []result.Run {
	var out []result.Run
	for _, system := range systems {
		i := slices.IndexFunc(s.Runs, func(r result.Run) bool { return r.System == system.Name && r.Unusable == "" })
		if i >= 0 {
			out = append(out, s.Runs[i])
		}
	}
	return out
}

func seriesNames(runs []result.Run) []string {
	var out []string
	for _, r := range runs {
		for name := range r.Series {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
