package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice/lab/bench/chart"
	"sluice/lab/bench/result"
)

// view is a report in the form that people read.
type view struct{ result.Report }

// systemIndex returns the index of a system, which chooses its colour.
func (v view) systemIndex(name string) int {
	return slices.IndexFunc(v.Systems, func(s result.System) bool { return s.Name == name })
}

// charts returns all charts of a report, in the order of the page.
func (v view) charts() []chart.Chart {
	var out []chart.Chart
	for _, kind := range v.Kinds() {
		scenarios := v.OfKind(kind)
		out = append(out, v.cdfs(kind, scenarios)...)
		out = append(out, v.overSubscribers(kind, scenarios)...)
		out = append(out, v.overTime(kind, scenarios)...)
	}
	out = slices.DeleteFunc(out, func(c chart.Chart) bool { return !c.HasValues() })
	chart.UniqueIDs(out)
	return out
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
				out = append(out, v.overGroup(kind, name, g, chart.Bars))
			}
			continue
		}
		if !slices.ContainsFunc(all, func(g group) bool { return len(g.scenarios) > 1 }) {
			out = append(out, v.overGroup(kind, name, group{scenarios: scenarios}, chart.Bars))
			continue
		}
		for _, g := range all {
			out = append(out, v.overGroup(kind, name, g, chart.Lines))
		}
	}
	return out
}

// overGroup returns a chart of a metric over the scenarios of a group: bars, or lines over the number that they differ
// in.
func (v view) overGroup(kind, name string, g group, form chart.Form) chart.Chart {
	m := v.Metric(name)
	title, number := g.axis()
	c := chart.Chart{ID: fmt.Sprint(kind, " ", name, " ", g.title), Kind: kind, Figure: "by scenario", Form: form,
		Title: joinTitle(m.Title, g.title), Y: chart.Axis{Unit: m.Unit}}
	at := func(i int) float64 { return float64(i) }
	if form == chart.Lines {
		c.Figure, c.X = "by "+title, chart.Axis{Title: title, Log: true}
		at = func(i int) float64 { return float64(number(g.scenarios[i])) }
	} else {
		c.X = g.categories()
	}
	for i, system := range v.Systems {
		t := chart.Trace{Name: system.Name, System: i}
		for x, s := range g.scenarios {
			if stat, ok := s.Summary(system.Name).Metrics[name]; ok {
				t.Add(at(x), stat)
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

// names returns the keys of the maps that get returns for the summaries of the scenarios, each once. The name of a part
// has more dots than the name of the whole, and follows it.
func names[V any](scenarios []result.Scenario, get func(result.Summary) map[string]V) []string {
	all := make(map[string]V)
	for _, s := range scenarios {
		for _, sum := range s.Summaries {
			maps.Copy(all, get(sum))
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")), cmp.Compare(a, b))
	})
}

func metricsOf(s result.Summary) map[string]result.Statistic               { return s.Metrics }
func distributionsOf(s result.Summary) map[string]result.Distribution      { return s.Distributions }
func breakdownsOf(s result.Summary) map[string]map[string]result.Statistic { return s.Breakdowns }

// group is scenarios that differ only in the number of subscribers, of relays or of flows.
type group struct {
	title     string // its difference from other groups of the kind
	scenarios []result.Scenario
}

// axis returns the parameter that the scenarios differ in, and its number.
func (g group) axis() (title string, number func(result.Scenario) int) {
	if g.scenarios[0].Params.Relays > 0 {
		return "relays", func(s result.Scenario) int { return s.Params.Relays }
	}
	if g.scenarios[0].Params.Flows > 0 {
		return "flows", func(s result.Scenario) int { return s.Params.Flows }
	}
	return "subscribers", func(s result.Scenario) int { return s.Params.Subscribers }
}

// categories returns the axis of bars, one for each scenario: its number, its link or its title.
func (g group) categories() (x chart.Axis) {
	label := func(s result.Scenario) string { return s.Title }
	title, number := g.axis()
	if len(g.scenarios) > 1 && number(g.scenarios[0]) != 0 && len(groups(g.scenarios)) == 1 {
		x.Title, label = title, func(s result.Scenario) string { return strconv.Itoa(number(s)) }
	} else if byLink(g.scenarios) {
		label = func(s result.Scenario) string { return s.Params.Link }
	}
	for _, s := range g.scenarios {
		x.Categories = append(x.Categories, label(s))
	}
	return x
}

// groups returns the groups in the order of their first scenarios, each sorted by these numbers.
func groups(scenarios []result.Scenario) []group {
	var out []group
	var keys []result.Params
	for _, s := range scenarios {
		key := s.Params
		key.Subscribers, key.Relays, key.Flows = 0, 0, 0
		i := slices.Index(keys, key)
		if i < 0 {
			i = len(keys)
			keys, out = append(keys, key), append(out, group{})
		}
		out[i].scenarios = append(out[i].scenarios, s)
	}
	for i := range out {
		out[i].title = difference(keys, keys[i])
		slices.SortStableFunc(out[i].scenarios, func(a, b result.Scenario) int {
			return cmp.Or(cmp.Compare(a.Params.Subscribers, b.Params.Subscribers),
				cmp.Compare(a.Params.Relays, b.Params.Relays), cmp.Compare(a.Params.Flows, b.Params.Flows))
		})
	}
	return out
}

// difference names the parameters of p that differ from others'.
func difference(all []result.Params, p result.Params) string {
	var parts []string
	for _, value := range []func(result.Params) string{
		func(p result.Params) string { return p.Load },
		func(p result.Params) string { return p.Link },
		func(p result.Params) string { return p.Media },
		func(p result.Params) string { return withValue(p.Rate, " Mbit/s") },
		func(p result.Params) string { return withValue(p.FrameRate, " frames/s") },
		func(p result.Params) string { return withValue(p.Duration, " s") },
	} {
		v := value(p)
		if v != "" && slices.ContainsFunc(all, func(o result.Params) bool { return value(o) != "" && value(o) != v }) {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, ", ")
}

func withValue(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return result.Number(v).String() + unit
}

// joinTitle joins the parts that are not empty.
func joinTitle(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// quantileOf splits the name of a metric that is a quantile of a distribution.
func quantileOf(metric string, distributions []string) (distribution, quantile string, ok bool) {
	for _, d := range distributions {
		if q, ok := strings.CutPrefix(metric, d+".p"); ok {
			return d, "p" + q, true
		}
	}
	return "", "", false
}

// byLink reports whether scenarios differ in the link of a subscriber.
func byLink(scenarios []result.Scenario) bool {
	return !slices.ContainsFunc(scenarios, func(s result.Scenario) bool { return s.Params.Link == "" })
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
	all := make(map[string]result.Series)
	for _, r := range runs {
		maps.Copy(all, r.Series)
	}
	return slices.Sorted(maps.Keys(all))
}
