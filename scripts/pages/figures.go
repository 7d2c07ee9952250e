package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"sluice/lab/bench/result"
)

// data is results files by key: the path below docs/results, or the folder's if the file is called results.json.
type data map[string]file

// figure is a number of a page.
type figure float64

// String returns two significant digits, or all digits before the decimal point, in groups of three.
func (f figure) String() string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'e', 1, 64), 64)
	switch {
	case err != nil || math.IsNaN(rounded) || math.IsInf(rounded, 0):
		return "–"
	case float64(f) == math.Trunc(float64(f)) || math.Abs(rounded) >= 10:
		digits := strconv.FormatFloat(math.Abs(float64(f)), 'f', 0, 64)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		if f < 0 {
			return "-" + digits
		}
		return digits
	}
	return strconv.FormatFloat(rounded, 'f', 1-int(math.Floor(math.Log10(math.Abs(rounded)))), 64)
}

// goal returns a number that reaches its goal in bold, and one that misses it with as many digits as show that.
func (f figure) goal(limit float64, reached bool) string {
	text := f.String()
	if reached {
		return "**" + text + "**, reached"
	}
	for digits := 3; ; digits++ {
		if shown, err := strconv.ParseFloat(text, 64); err != nil || shown != limit {
			return text + ", missed"
		}
		text = strconv.FormatFloat(float64(f), 'g', digits, 64)
	}
}

// functions are what templates call. Scenarios are named as in results files; a scenario that several files have is
// named with the key of the file: "congestion:congestion/lte". Without a system, a number is of the first one, Sluice.
func (d data) functions() template.FuncMap {
	return template.FuncMap{
		"v":           d.value,
		"spread":      d.spread,
		"part":        d.part,
		"pair":        d.pair,
		"cells":       d.cells,
		"times":       d.times,
		"origin":      d.origin,
		"run":         func(key string) result.Report { return d[key].Report },
		"minus":       func(a, b figure) figure { return a - b },
		"by":          func(a figure, factor float64) figure { return figure(float64(a) * factor) },
		"ratio":       func(a, b figure) figure { return a / b },
		"atMost":      func(a figure, limit float64) string { return a.goal(limit, float64(a) <= limit) },
		"atLeast":     func(a figure, limit float64) string { return a.goal(limit, float64(a) >= limit) },
		"conformance": conformance,
		"handmade":    handmade,
		"list":        func(list ...string) []string { return list },
		"join":        func(cells string) string { return strings.ReplaceAll(cells, " | ", " / ") },
		"fewer":       func(a, b figure) figure { return figure(math.Round(100 * float64(1-b/a))) },
	}
}

// scenario returns a scenario, and the report that has it. A name without a report is of results, or of the only report
// that has it.
func (d data) scenario(name string) (found result.Scenario, of file, err error) {
	from, short, qualified := strings.Cut(name, ":")
	if !qualified {
		short = name
		hasName := func(s result.Scenario) bool { return s.Name == name }
		if slices.ContainsFunc(d["results"].Scenarios, hasName) {
			from, qualified = "results", true
		}
	}
	for key, file := range d {
		for _, scenario := range file.Scenarios {
			if scenario.Name != short || qualified && key != from {
				continue
			}
			if found.Name != "" {
				return found, of, fmt.Errorf("scenario %q: several results files have it, so name one", name)
			}
			found, of = scenario, file
		}
	}
	if found.Name == "" {
		err = fmt.Errorf("scenario %q: no results file has it", name)
	}
	return found, of, err
}

// statistic returns a metric of a system, or of the first one.
func (d data) statistic(scenario, metric string, system []string) (result.Statistic, error) {
	found, report, err := d.scenario(scenario)
	if err != nil {
		return result.Statistic{}, err
	}
	of := append(system, report.Subject())[0]
	statistic, ok := found.Summary(of).Metrics[metric]
	if !ok {
		return statistic, fmt.Errorf("scenario %q: %s has no metric %q", scenario, of, metric)
	}
	return statistic, nil
}

func (d data) value(scenario, metric string, system ...string) (figure, error) {
	statistic, err := d.statistic(scenario, metric, system)
	return figure(statistic.Median), err
}

// pair returns a median without the fast path, and with it, in another unit.
func (d data) pair(scenario, metric string, factor float64) (string, error) {
	without, err := d.value(scenario, metric, "sluice-userspace")
	with, failed := d.value(scenario, metric)
	return fmt.Sprintf("%v and %v", without*figure(factor), with*figure(factor)), errors.Join(err, failed)
}

// spread returns the median of the runs, with the lowest and the highest.
func (d data) spread(scenario, metric string, system ...string) (string, error) {
	statistic, err := d.statistic(scenario, metric, system)
	median, low, high := figure(statistic.Median), figure(statistic.Min), figure(statistic.Max)
	if low.String() == high.String() {
		return median.String(), err
	}
	return fmt.Sprintf("%s (%s–%s)", median, low, high), err
}

// part returns a part of a breakdown.
func (d data) part(scenario, breakdown, part, system string) (figure, error) {
	found, _, err := d.scenario(scenario)
	if err != nil {
		return 0, err
	}
	statistic, ok := found.Summary(system).Breakdowns[breakdown][part]
	if !ok {
		return 0, fmt.Errorf("scenario %q: %s has no %q in %q", scenario, system, part, breakdown)
	}
	return figure(statistic.Median), nil
}

// times returns the ratio of Sluice to the best relay that is not of this repository.
func (d data) times(scenario, metric string) (figure, error) {
	own, err := d.statistic(scenario, metric, nil)
	if err != nil {
		return 0, err
	}
	found, report, _ := d.scenario(scenario)
	best := math.NaN()
	for _, system := range report.Systems {
		other, ok := found.Summary(system.Name).Metrics[metric]
		if ok && !strings.HasPrefix(system.Name, report.Subject()) &&
			!(float64(report.Metric(metric).Better)*(best-other.Median) >= 0) {
			best = other.Median
		}
	}
	return figure(own.Median / best), nil
}

var metricName = regexp.MustCompile(`[a-z]+(\.[a-z0-9]+)*`)

// cells returns a cell for each system, or for those that are named. In a format such as "first.p50 / first.p99",
// metrics become medians. Bold is what no other system is better than, beyond the spread of the runs.
func (d data) cells(scenario, format string, systems ...string) (string, error) {
	found, report, err := d.scenario(scenario)
	if err != nil {
		return "", err
	}
	if len(systems) == 0 {
		for _, system := range report.Systems {
			systems = append(systems, system.Name)
		}
	}
	known := 0
	cells := make([]string, len(systems))
	for i, system := range systems {
		cell := metricName.ReplaceAllStringFunc(format, func(metric string) string {
			statistic, ok := found.Summary(system).Metrics[metric]
			if !ok {
				return "–"
			}
			known++
			text := figure(statistic.Median).String()
			if best(found, systems, metric, report.Metric(metric).Better, statistic) {
				return "**" + text + "**"
			}
			return text
		})
		for _, between := range []string{" / ", ", ", "; "} {
			cell = strings.ReplaceAll(cell, "**"+between+"**", between)
		}
		cells[i] = cell
	}
	if known == 0 {
		return "", fmt.Errorf("scenario %q: no system has a metric of %q", scenario, format)
	}
	return strings.Join(cells, " | "), nil
}

// best reports whether no system is better, but some other one could be.
func best(scenario result.Scenario, systems []string, metric string, better int, own result.Statistic) bool {
	unbeaten := func(own result.Statistic) bool {
		return !slices.ContainsFunc(systems, func(system string) bool {
			other, ok := scenario.Summary(system).Metrics[metric]
			return ok && own.Compare(other)*better < 0
		})
	}
	return unbeaten(own) && slices.ContainsFunc(systems, func(system string) bool {
		other, ok := scenario.Summary(system).Metrics[metric]
		return ok && !unbeaten(other)
	})
}

// origin returns where the numbers of a results file are from, as a row of a table.
func (d data) origin(key string) (string, error) {
	r, ok := d[key]
	if !ok {
		return "", fmt.Errorf("results file %q: there is none", key)
	}
	repetitions := 0
	for _, scenario := range r.Scenarios {
		for _, summary := range scenario.Summaries {
			repetitions = max(repetitions, summary.Runs)
		}
	}
	machine := r.Machine.CPU
	if r.Machine.Cores > 0 {
		machine = fmt.Sprintf("%s; load %v at the start, %v %% of the CPU time to other machines", r.Machine,
			figure(r.Machine.Load), figure(100*r.Machine.Steal))
	}
	return fmt.Sprintf("| [%s](%s) | `%s` | %s | %v | %d | %s | `%s` |", key,
		strings.TrimPrefix(r.path, "docs/"), r.Commit,
		r.Date.Format("2006-01-02"), figure(math.Round(r.Duration/60)), repetitions, machine,
		strings.Join(r.command(), " ")), nil
}

// handmade returns where the numbers are from that no results file has, as rows of a table.
func handmade() string {
	rows := make(map[string]bool)
	for path, text := range pages() {
		for _, m := range byHand.FindAllStringSubmatch(text, -1) {
			words := strings.Join(strings.Fields(strings.ReplaceAll(m[1], "|", `\|`)), " ")
			from := append(strings.SplitN(words, ", ", 3), "", "")
			page, _ := filepath.Rel("docs", path)
			rows[fmt.Sprintf("| [%s](%s) | `%s` | %s | `%s` |", page, page, from[0], from[1], from[2])] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(rows)), "\n")
}
