package bench

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// chart is what one plot shows, whoever draws it: plot.go draws files, page.js draws in the page.
type chart struct {
	ID     string `json:"id"` // name of its files; unique in a report
	Figure string `json:"-"`  // the page shows one of the charts of a figure at a time
	kind   string
	Title  string  `json:"title"`
	Form   form    `json:"form"`
	X      axis    `json:"x"`
	Y      axis    `json:"y"`
	Traces []trace `json:"traces"`
}

type form string

const (
	cdf   form = "cdf"   // X: values, Y: fractions
	lines form = "lines" // points over X, joined
	bars  form = "bars"  // groups over the categories of X, a bar for each trace
	stack form = "stack" // a bar over each category of X, a part for each trace
)

// axis has no title where that of the chart says it.
type axis struct {
	Title string `json:"title,omitempty"`
	Unit  string `json:"unit,omitempty"`
	Log   bool   `json:"log,omitempty"`
	// Categories name the positions 0, 1, … of bars. In a stack Systems has, for each, the index of its system.
	Categories []string `json:"categories,omitempty"`
	Systems    []int    `json:"systems,omitempty"`
}

// trace is one line, or the bars of one colour.
type trace struct {
	Name   string   `json:"name"`
	System int      `json:"system"` // index in Report.Systems, which chooses the colour; noSystem if it is of none
	X      []number `json:"x"`
	Y      []number `json:"y"`
	Low    []number `json:"low,omitempty"` // range over the runs
	High   []number `json:"high,omitempty"`
}

const noSystem = -1

// add appends a point with the range over the runs.
func (t *trace) add(x float64, s Statistic) {
	t.X, t.Y = append(t.X, number(x)), append(t.Y, number(s.Median))
	t.Low, t.High = append(t.Low, number(s.Min)), append(t.High, number(s.Max))
}

// hasValues reports whether there is anything to draw that a table does not say better.
func (c chart) hasValues() bool {
	return slices.ContainsFunc(c.Traces, func(t trace) bool {
		return slices.ContainsFunc(t.Y, func(y number) bool { return y.finite() && y != 0 })
	})
}

// charts makes all charts of a report, in the order in which they are shown.
func (r Report) charts() []chart {
	var out []chart
	for _, kind := range r.kinds() {
		scenarios := r.ofKind(kind)
		out = append(out, r.cdfs(kind, scenarios)...)
		out = append(out, r.overSubscribers(kind, scenarios)...)
		out = append(out, r.stacks(kind, scenarios)...)
		out = append(out, r.overTime(kind, scenarios)...)
	}
	out = slices.DeleteFunc(out, func(c chart) bool { return !c.hasValues() })
	uniqueIDs(out)
	return out
}

// kinds are those of the scenarios, in the order in which they appear.
func (r Report) kinds() []string {
	var kinds []string
	for _, s := range r.Scenarios {
		if !slices.Contains(kinds, s.Kind) {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

func (r Report) ofKind(kind string) []Scenario {
	var out []Scenario
	for _, s := range r.Scenarios {
		if s.Kind == kind {
			out = append(out, s)
		}
	}
	return out
}

// metric describes a name; one that the report does not describe is shown as it is.
func (r Report) metric(name string) Metric {
	m, ok := r.Metrics[name]
	if !ok || m.Title == "" {
		m.Title = name
	}
	return m
}

// system is the index of a system, which chooses its colour.
func (r Report) system(name string) int {
	return slices.IndexFunc(r.Systems, func(s System) bool { return s.Name == name })
}

// notRun is why a system has no numbers in a scenario that it takes no part in.
const notRun = "not run"

func (s Scenario) summary(system string) Summary {
	i := slices.IndexFunc(s.Summaries, func(sum Summary) bool { return sum.System == system })
	if i < 0 {
		return Summary{System: system, Unusable: notRun}
	}
	return s.Summaries[i]
}

// names are the keys of what get finds in the summaries of the scenarios, each once, those of parts of something behind the whole.
func names[V any](scenarios []Scenario, get func(Summary) map[string]V) []string {
	var out []string
	for _, s := range scenarios {
		for _, sum := range s.Summaries {
			for name := range get(sum) {
				out = append(out, name)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")), cmp.Compare(a, b))
	})
	return slices.Compact(out)
}

func metricsOf(s Summary) map[string]Statistic               { return s.Metrics }
func distributionsOf(s Summary) map[string]Distribution      { return s.Distributions }
func breakdownsOf(s Summary) map[string]map[string]Statistic { return s.Breakdowns }

// group is scenarios that differ in the number of subscribers only.
type group struct {
	title     string // what makes it differ from other groups of the kind
	scenarios []Scenario
}

// groups are in the order of their first scenarios, and each is sorted by the number of subscribers.
func groups(scenarios []Scenario) []group {
	var out []group
	var keys []Params
	for _, s := range scenarios {
		key := s.Params
		key.Subscribers = 0
		i := slices.Index(keys, key)
		if i < 0 {
			i = len(keys)
			keys, out = append(keys, key), append(out, group{})
		}
		out[i].scenarios = append(out[i].scenarios, s)
	}
	for i := range out {
		out[i].title = difference(keys, keys[i])
		slices.SortStableFunc(out[i].scenarios, func(a, b Scenario) int {
			return cmp.Compare(a.Params.Subscribers, b.Params.Subscribers)
		})
	}
	return out
}

// difference is what p has that others have differently.
func difference(all []Params, p Params) string {
	var parts []string
	for _, value := range []func(Params) string{
		func(p Params) string { return p.Load },
		func(p Params) string { return p.Link },
		func(p Params) string { return p.Media },
		func(p Params) string { return withValue(p.Rate, " Mbit/s") },
		func(p Params) string { return withValue(p.FrameRate, " frames/s") },
		func(p Params) string { return withValue(p.Duration, " s") },
	} {
		v := value(p)
		if v != "" && slices.ContainsFunc(all, func(o Params) bool { return value(o) != "" && value(o) != v }) {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, ", ")
}

func withValue(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return number(v).String() + unit
}

// titled puts what is not empty behind one another.
func titled(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

var notInFileNames = regexp.MustCompile(`[^a-z0-9]+`)

// uniqueIDs makes names of files from what identifies the charts.
func uniqueIDs(charts []chart) {
	const maxLength = 80 // leaves room for a number and an extension in any file system
	seen := map[string]bool{}
	for i := range charts {
		id := strings.Trim(notInFileNames.ReplaceAllString(strings.ToLower(charts[i].ID), "-"), "-")
		id = cmp.Or(id[:min(len(id), maxLength)], "chart")
		unique := id
		for n := 2; seen[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", id, n)
		}
		seen[unique], charts[i].ID = true, unique
	}
}
