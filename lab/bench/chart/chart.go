package chart

import (
	"cmp"
	"fmt"
	"image/color"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"sluice/lab/bench/result"
)

// Chart is the content of one plot.
type Chart struct {
	ID     string // name of its files; unique in a report
	Figure string // a report shows the first chart of each figure
	Kind   string // of the scenarios that it is about
	Title  string
	Form   Form
	X      Axis
	Y      Axis
	Traces []Trace
}

// Form is how a chart shows its traces.
type Form string

// The forms of charts.
const (
	CDF   Form = "cdf"   // X: values, Y: fractions
	Lines Form = "lines" // points over X, joined
	Bars  Form = "bars"  // groups over the categories of X, a bar for each trace
)

// Axis describes an axis. It has no title where the title of the chart names the quantity.
type Axis struct {
	Title string
	Unit  string
	Log   bool
	// Categories name the positions 0, 1, … of bars.
	Categories []string
}

// Trace is one line, or the bars of one colour.
type Trace struct {
	Name   string
	System int // index in Report.Systems, which chooses the colour
	X      []result.Number
	Y      []result.Number
	Low    []result.Number // range over the runs
	High   []result.Number
}

// Add appends a point with its range over the runs.
func (t *Trace) Add(x float64, s result.Statistic) {
	t.X, t.Y = append(t.X, result.Number(x)), append(t.Y, result.Number(s.Median))
	t.Low, t.High = append(t.Low, result.Number(s.Min)), append(t.High, result.Number(s.Max))
}

// HasValues reports whether the chart has a value other than zero. A table shows the other charts better.
func (c Chart) HasValues() bool {
	return slices.ContainsFunc(c.Traces, func(t Trace) bool {
		return slices.ContainsFunc(t.Y, func(y result.Number) bool { return y.Finite() && y != 0 })
	})
}

var notInFileNames = regexp.MustCompile(`[^a-z0-9]+`)

// UniqueIDs turns the IDs of charts into different names of files.
func UniqueIDs(charts []Chart) {
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

// points returns the points that the chart can show: a logarithmic axis has no zero.
func (t Trace) points(c Chart) plotter.XYs {
	var out plotter.XYs
	for i := range t.X {
		if t.X[i].Finite() && t.Y[i].Finite() && (!c.X.Log || t.X[i] > 0) {
			out = append(out, plotter.XY{X: float64(t.X[i]), Y: float64(t.Y[i])})
		}
	}
	return out
}

func (t Trace) colour() color.NRGBA { return colours[t.System%len(colours)] }

func (t Trace) dashes() []vg.Length { return dashes[t.System%len(dashes)] }

// values returns the heights of bars. A height of zero draws no bar.
func (t Trace) values(categories int) plotter.Values {
	out := make(plotter.Values, categories)
	for i, x := range t.X {
		if t.Y[i].Finite() {
			out[int(x)] = float64(t.Y[i])
		}
	}
	return out
}
