package history

import (
	"slices"
	"time"

	"sluice/internal/rtt/report"
)

// series is a Series that is being made.
type series struct {
	Series
	part  string // that it is about; "": RTTs
	steps steps
	hours hours
}

func (s *summarizer) newSeries(prefix, part string) *series {
	return &series{Series: newTotal(prefix), part: part, hours: hours{from: s.HeatFrom}}
}

// own returns the histogram that the series is about.
func (s *series) own() *report.Histogram {
	if s.part == "" {
		return &s.RTT
	}
	if h := s.Parts[s.part]; h != nil {
		return h
	}
	return new(report.Histogram)
}

// add adds a row, whose histogram is h, in the step that begins at a time.
func (s *series) add(r *Row, h *report.Histogram, at time.Time) {
	s.Series.add(r, h)
	if s.part != "" {
		h = r.part(s.part)
	}
	s.steps.add(at, h)
	if s.Prefix != "" { // all prefixes together have Days
		s.hours.add(r.hour(), h)
	}
}

// finish ends the last step, and seeks changes.
func (s *series) finish() Series {
	s.Points, s.Hours = s.steps.finish(), s.hours.finish()
	s.Changes = findChanges(s.Points)
	return s.Series
}

// window has the histogram of one time, and then of another: those of all steps of a month would take 0.8 MB for each
// prefix.
type window struct {
	at  time.Time
	sum report.Histogram
}

// next begins another time.
func (w *window) next(at time.Time) {
	clear(w.sum.Bins)
	w.at, w.sum = at, report.Histogram{Bins: w.sum.Bins}
}

// steps makes Points.
type steps struct {
	window
	points Points
}

// add adds RTTs in the step that begins at a time. They come in the order of time; if the clock was set back, a time
// may have two points.
func (s *steps) add(at time.Time, h *report.Histogram) {
	if h.Count == 0 {
		return
	}
	if !at.Equal(s.at) {
		s.end()
		s.next(at)
	}
	s.sum.Add(h)
}

// end makes a point of the step.
func (s *steps) end() {
	if h := &s.sum; h.Count > 0 {
		s.points = append(s.points, Point{
			At: s.at, Count: h.Count, P50: h.Quantile(0.5), P95: h.Quantile(0.95), P99: h.Quantile(0.99),
		})
	}
}

// finish ends the last step, and returns the points in the order of time.
func (s *steps) finish() Points {
	s.end()
	slices.SortStableFunc(s.points, func(a, b Point) int { return a.At.Compare(b.At) })
	return s.points
}

// hours makes Hours. Of an hour that comes twice, because the clock was set back, the larger percentile counts.
type hours struct {
	window
	from time.Time // earlier hours are left out
	days []Hours
}

// add adds RTTs of the hour that begins at a time.
func (h *hours) add(at time.Time, rtts *report.Histogram) {
	if rtts.Count == 0 || at.Before(h.from) {
		return
	}
	if !at.Equal(h.at) {
		h.end()
		h.next(at)
	}
	h.sum.Add(rtts)
}

func (h *hours) end() {
	if h.sum.Count == 0 {
		return
	}
	day := int(h.at.Sub(h.from) / oneDay)
	for len(h.days) <= day {
		h.days = append(h.days, Hours{})
	}
	of := &h.days[day][h.at.Hour()]
	*of = max(*of, h.sum.Quantile(0.95))
}

func (h *hours) finish() []Hours {
	h.end()
	return h.days
}
