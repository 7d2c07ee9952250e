package result

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Change is how a metric differs between two reports.
type Change struct {
	Scenario, System, Metric string // names
	Title, Unit              string // of the metric
	Before, After            Statistic
	Percent                  float64 // of the median before; ±Inf from zero
	Better                   int     // 1: it improved, -1: it got worse, 0: neither
	Spread                   Spread
}

// Spread compares a change with the differences between runs of the same program.
type Spread string

const (
	ExceedsSpread Spread = "yes"     // the ranges of the runs before and after do not overlap
	WithinSpread  Spread = "no"      // the ranges overlap: repeating the same measurement may show such a change
	UnknownSpread Spread = "one run" // one side has no range
)

// Comparison is the result of Compare.
type Comparison struct {
	Changes []Change
	// Missing names the scenarios and systems that only one report has numbers for, and other obstacles to a
	// comparison.
	Missing []string
}

// Compare compares two reports: the metrics of scenarios with the same name and of systems with the same name, in the
// order of the second report.
func Compare(before, after Report) Comparison {
	var c Comparison
	if before.Machine.String() != after.Machine.String() {
		c.Missing = append(c.Missing,
			fmt.Sprintf("measured on different machines: %s; %s", before.Machine, after.Machine))
	}
	for _, s := range after.Scenarios {
		i := slices.IndexFunc(before.Scenarios, func(o Scenario) bool { return o.Name == s.Name })
		if i < 0 {
			c.Missing = append(c.Missing, fmt.Sprintf("%s: only in the second report", s.Name))
			continue
		}
		c.scenario(before.Scenarios[i], s, after)
	}
	for _, s := range before.Scenarios {
		if !slices.ContainsFunc(after.Scenarios, func(o Scenario) bool { return o.Name == s.Name }) {
			c.Missing = append(c.Missing, fmt.Sprintf("%s: only in the first report", s.Name))
		}
	}
	return c
}

func (c *Comparison) scenario(before, after Scenario, r Report) {
	for _, system := range r.Systems {
		a, b := before.Summary(system.Name), after.Summary(system.Name)
		if a.Unusable == NotRun && b.Unusable == NotRun {
			continue // it takes no part in such scenarios
		}
		for _, s := range []Summary{a, b} {
			if s.Unusable != "" {
				c.Missing = append(c.Missing, fmt.Sprintf("%s, %s: no number: %s", after.Name, system.Name, s.Unusable))
				break
			}
		}
		for _, name := range slices.Sorted(maps.Keys(b.Metrics)) {
			if was, ok := a.Metrics[name]; ok {
				m := r.Metric(name)
				change := newChange(was, b.Metrics[name], min(a.Runs, b.Runs), m.Better)
				change.Scenario, change.System, change.Metric = after.Name, system.Name, name
				change.Title, change.Unit = m.Title, m.Unit
				c.Changes = append(c.Changes, change)
			}
		}
	}
}

func newChange(before, after Statistic, runs, better int) Change {
	c := Change{Before: before, After: after, Percent: change(before.Median, after.Median), Spread: WithinSpread}
	switch {
	case runs < 2:
		c.Spread = UnknownSpread
	case apart(before, after):
		c.Spread = ExceedsSpread
	}
	switch d := after.Median - before.Median; {
	case d > 0:
		c.Better = better
	case d < 0:
		c.Better = -better
	}
	return c
}

// change returns the change from a to b, in percent of a.
func change(a, b float64) float64 {
	if a == b {
		return 0
	}
	return (b - a) / math.Abs(a) * 100
}

// Worse returns the changes for the worse by more than percent that exceed the spread.
func (c Comparison) Worse(percent float64) []Change {
	var out []Change
	for _, change := range c.Changes {
		if change.Better < 0 && math.Abs(change.Percent) > percent && change.Spread == ExceedsSpread {
			out = append(out, change)
		}
	}
	return out
}

// Write writes a table of the changes, and below it a list of metrics that could not be compared.
func (c Comparison) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SCENARIO\tSYSTEM\tMETRIC\tBEFORE\tAFTER\tCHANGE\tEXCEEDS SPREAD\tVERDICT")
	for _, ch := range c.Changes {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", ch.Scenario, ch.System, WithUnit(ch.Title, ch.Unit),
			ch.Before, ch.After, percent(ch.Percent), ch.Spread, ch.verdict())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, m := range c.Missing {
		if _, err := fmt.Fprintln(w, "not compared: "+m); err != nil {
			return err
		}
	}
	return nil
}

func (c Change) verdict() string {
	switch {
	case c.Spread == WithinSpread || c.Better == 0:
		return ""
	case c.Better > 0:
		return "better"
	}
	return "worse"
}

func percent(p float64) string {
	switch {
	case math.IsNaN(p):
		return Unknown.String()
	case math.IsInf(p, 0):
		return "from zero"
	}
	s := fmt.Sprintf("%+.1f%%", p)
	if strings.Trim(s, "+-0.%") == "" {
		return "0%"
	}
	return s
}
