package page

import (
	"fmt"
	"math"
	"strings"
	"time"

	"sluice/internal/rtt/history"
)

// chart is lines over time as SVG paths, with a logarithmic axis of RTTs.
type chart struct {
	Width, Height float64
	Lines         []line
	Times, RTTs   []tick
	Changes       []mark

	from        time.Time
	span        time.Duration
	step        time.Duration
	bottom, top float64 // logarithms of the axis's ends
}

// line is a line of a chart. Its class has its colour.
type line struct{ Class, Name, Path string }

// curve is what a line shows.
type curve struct {
	class, name string
	points      history.Points
	value       func(history.Point) time.Duration
}

func p50(p history.Point) time.Duration { return p.P50 }
func p95(p history.Point) time.Duration { return p.P95 }
func p99(p history.Point) time.Duration { return p.P99 }

// tick is a line of the grid.
type tick struct {
	At   float64
	Text string
}

// mark is a change.
type mark struct {
	history.Change
	X float64
}

// newChart draws the percentiles of all prefixes.
func newChart(s *history.Summary) *chart {
	points := s.All.Points
	return draw(s, 960, 260, s.All.Changes, []curve{
		{"p99", "99th percentile", points, p99}, {"p95", "95th percentile", points, p95},
		{"p50", "median", points, p50},
	})
}

// newSpark draws the percentiles of one prefix, small.
func newSpark(s *history.Summary, one *history.Series) *chart {
	return draw(s, 180, 40, one.Changes, []curve{
		{"p95", "95th percentile", one.Points, p95}, {"p50", "median", one.Points, p50},
	})
}

// hosts is how the RTTs of which parts are told apart are called.
const hosts = "hosts"

// partCharts draw the parts of RTTs, and the RTTs themselves.
func partCharts(s *history.Summary) []partChart {
	draw := func(name string, value func(history.Point) time.Duration) partChart {
		curves := []curve{{"part0", hosts, s.All.Points, value}}
		for i, part := range s.Parts {
			class := fmt.Sprintf("part%d", 1+i%(partClasses-1))
			curves = append(curves, curve{class, part, s.OverTime[part], value})
		}
		return partChart{name, draw(s, 960, 200, nil, curves)}
	}
	return []partChart{draw("median", p50), draw("95th percentile", p95)}
}

// partClasses is how many classes of lines there are for parts.
const partClasses = 9

// partChart is a chart of a quantile.
type partChart struct {
	Quantile string
	Chart    *chart
}

func draw(s *history.Summary, width, height float64, changes []history.Change, curves []curve) *chart {
	c := &chart{Width: width, Height: height, from: s.From, span: max(s.To.Sub(s.From), s.Step), step: s.Step}
	c.scale(curves)
	for _, one := range curves {
		if len(one.points) > 0 {
			c.Lines = append(c.Lines, line{one.class, one.name, c.path(one.points, one.value)})
		}
	}
	for _, change := range changes {
		c.Changes = append(c.Changes, mark{change, c.x(change.At)})
	}
	c.RTTs, c.Times = c.rttTicks(), c.timeTicks()
	return c
}

// scale chooses the ends of the axis of RTTs: all points fit, and there is room for a factor of two at least.
func (c *chart) scale(curves []curve) {
	c.bottom, c.top = math.Inf(1), math.Inf(-1)
	for _, one := range curves {
		for _, p := range one.points {
			v := logOf(one.value(p))
			c.bottom, c.top = min(c.bottom, v), max(c.top, v)
		}
	}
	if c.bottom > c.top { // there are no points
		c.bottom, c.top = logOf(time.Millisecond), logOf(time.Second)
	}
	if room := math.Ln2 - (c.top - c.bottom); room > 0 {
		c.bottom, c.top = c.bottom-room/2, c.top+room/2
	}
}

func (c *chart) x(t time.Time) float64 { return c.Width * t.Sub(c.from).Seconds() / c.span.Seconds() }

func (c *chart) y(d time.Duration) float64 {
	return c.Height * (c.top - logOf(d)) / (c.top - c.bottom)
}

// path returns the line through the points. It has gaps where there are no RTTs.
func (c *chart) path(points history.Points, value func(history.Point) time.Duration) string {
	var b strings.Builder
	for i, p := range points {
		command := 'L'
		if i == 0 || p.At.Sub(points[i-1].At) > c.step {
			command = 'M'
		}
		x := c.x(p.At)
		fmt.Fprintf(&b, "%c%.1f %.1f", command, x, c.y(value(p)))
		if end := c.x(p.At.Add(c.step)); command == 'M' {
			fmt.Fprintf(&b, "L%.1f %.1f", (x+end)/2, c.y(value(p))) // a single point is to be seen
		}
	}
	return b.String()
}

// rttTicks returns lines at 1, 2 and 5 times powers of ten.
func (c *chart) rttTicks() (ticks []tick) {
	for unit := time.Microsecond; unit <= 10*time.Second; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if v := logOf(n * unit); v >= c.bottom && v <= c.top {
				ticks = append(ticks, tick{c.y(n * unit), rttText(n * unit)})
			}
		}
	}
	return ticks
}

// timeSteps are the distances that lines may have, and how their times are written.
var timeSteps = []struct {
	step   time.Duration
	layout string
}{
	{5 * time.Minute, "15:04"}, {15 * time.Minute, "15:04"}, {time.Hour, "15:04"}, {3 * time.Hour, "15:04"},
	{6 * time.Hour, "02 15:04"}, {24 * time.Hour, "Jan 2"}, {7 * 24 * time.Hour, "Jan 2"},
	{28 * 24 * time.Hour, "Jan 2"}, {13 * 28 * 24 * time.Hour, "Jan 2006"},
}

// timeTicks returns at most about ten lines.
func (c *chart) timeTicks() (ticks []tick) {
	chosen := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if c.span <= 10*s.step {
			chosen = s
			break
		}
	}
	end := c.from.Add(c.span)
	for t := c.from.UTC().Truncate(chosen.step).Add(chosen.step); t.Before(end); t = t.Add(chosen.step) {
		ticks = append(ticks, tick{c.x(t), t.Format(chosen.layout)})
	}
	return ticks
}
