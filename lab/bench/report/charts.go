package report

import (
	"cmp"
	"slices"
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

// names returns the keys of the maps that get returns for the summaries of the scenarios, each once. The name of a part
// has more dots than the name of the whole, and follows it.
func names[V any](scenarios []result.Scenario, get func(result.Summary) map[string]V) []string {
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
		func(p result.Params) string { return withTitle(p.Cipher, " first") },
		func(p result.Params) string { return withTitle(p.Segmentation, " cut bursts") },
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

// withTitle returns a value and its title, unless it is empty.
func withTitle(value, title string) string {
	if value == "" {
		return ""
	}
	return value + title
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
