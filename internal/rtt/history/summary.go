package history

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"sluice/internal/rtt/report"
)

const (
	maxSteps   = 240  // of a series
	candidates = 1000 // prefixes, those with the most RTTs, of which the worst are sought
	minRTTs    = 20   // of a prefix that can be among the worst
)

// ErrEmpty is returned if a history has nothing of a time.
var ErrEmpty = errors.New("nothing was measured in that time")

// Summary is what a history tells about some time.
type Summary struct {
	From, To time.Time
	Step     time.Duration
	Prefixes int // with RTTs
	All      Series
	Worst    []Series // prefixes with the largest 95th percentiles, the worst first
	Days     []Day
	Skipped  int // rows whose bins have another width than the first ones
}

// Series is what was measured of a prefix, over time.
type Series struct {
	Prefix                       string // "" for all prefixes together
	RTT                          report.Histogram
	TCPSegments, Retransmissions uint64 // to and from it
	ECNCapable, ECNMarked        uint64
	Points                       []Point // those with RTTs
	Changes                      []Change
}

// Point is one step of a Series.
type Point struct {
	At            time.Time
	Count         uint64
	P50, P95, P99 time.Duration
}

// Day is the RTTs of a day, by the hour, in UTC.
type Day struct {
	Start time.Time
	Hours [24]report.Histogram
}

// Summarize reads a history from a time to another one, and seeks that many of the worst prefixes.
func Summarize(dir string, from, to time.Time, worst int) (*Summary, error) {
	o := overview{prefixes: make(map[string]uint64)}
	if err := Read(dir, from, to, o.add); err != nil {
		return nil, err
	}
	if len(o.prefixes) == 0 {
		return nil, ErrEmpty
	}
	s := &summarizer{
		Summary: Summary{From: o.from, To: o.to, Step: stepOf(o.to.Sub(o.from), o.longest), Prefixes: len(o.prefixes)},
		width:   o.width, days: make(map[int64]*Day), each: make(map[string]*series),
	}
	s.all = newSeries("")
	for _, prefix := range o.busiest() {
		s.each[prefix] = newSeries(prefix)
	}
	if err := Read(dir, from, to, s.add); err != nil {
		return nil, err
	}
	s.finish(worst)
	return &s.Summary, nil
}

// stepOf returns a step of whole intervals, or of whole minutes if they are shorter, by which a time has at most
// maxSteps.
func stepOf(d, interval time.Duration) time.Duration {
	unit := max(interval, time.Minute)
	return max(1, (d/maxSteps+unit-1)/unit) * unit
}

// overview is what has to be known before a history can be summarized.
type overview struct {
	from, to time.Time
	width    int64
	longest  time.Duration     // interval, in whole seconds
	prefixes map[string]uint64 // how many RTTs
}

func (o *overview) add(r *Row) error {
	if r.RTTs == 0 {
		return nil
	}
	if len(o.prefixes) == 0 {
		o.from, o.width = r.Start, r.Width
	}
	o.prefixes[r.Prefix] += r.RTTs
	o.longest = max(o.longest, r.End.Sub(r.Start).Round(time.Second))
	if r.End.After(o.to) {
		o.to = r.End
	}
	return nil
}

// busiest returns the prefixes with the most RTTs.
func (o *overview) busiest() []string {
	var names []string
	for name, n := range o.prefixes {
		if n >= minRTTs {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(o.prefixes[b], o.prefixes[a]), cmp.Compare(a, b))
	})
	return names[:min(len(names), candidates)]
}

// summarizer makes a Summary.
type summarizer struct {
	Summary
	width int64
	all   *series
	each  map[string]*series
	days  map[int64]*Day
}

// series is a Series whose steps are histograms.
type series struct {
	Series
	steps map[int]*report.Histogram
}

func newSeries(prefix string) *series {
	return &series{Series: Series{Prefix: prefix}, steps: make(map[int]*report.Histogram)}
}

func (s *summarizer) add(r *Row) error {
	h := r.Histogram()
	if r.RTTs > 0 && r.Width != s.width {
		s.Skipped++
		h = report.Histogram{}
	}
	step := max(0, int(r.Start.Sub(s.From)/s.Step))
	s.all.add(r, &h, step)
	if one := s.each[r.Prefix]; one != nil {
		one.add(r, &h, step)
	}
	if h.Count > 0 {
		s.hour(r.Start).Add(&h)
	}
	return nil
}

func (s *series) add(r *Row, h *report.Histogram, step int) {
	s.TCPSegments += r.TCPSegments
	s.Retransmissions += r.Retransmissions
	s.ECNCapable += r.ECNCapable
	s.ECNMarked += r.ECNMarked
	if h.Count == 0 {
		return
	}
	s.RTT.Add(h)
	if s.steps[step] == nil {
		s.steps[step] = new(report.Histogram)
	}
	s.steps[step].Add(h)
}

// hour returns the hour of the day that a time is in.
func (s *summarizer) hour(at time.Time) *report.Histogram {
	start := at.UTC().Truncate(24 * time.Hour)
	if s.days[start.Unix()] == nil {
		s.days[start.Unix()] = &Day{Start: start}
	}
	return &s.days[start.Unix()].Hours[at.UTC().Hour()]
}

func (s *summarizer) finish(worst int) {
	s.All = s.all.finish(s.From, s.Step)
	for _, one := range s.each {
		s.Worst = append(s.Worst, one.Series)
	}
	slices.SortFunc(s.Worst, func(a, b Series) int {
		return cmp.Or(cmp.Compare(b.RTT.Quantile(0.95), a.RTT.Quantile(0.95)), cmp.Compare(a.Prefix, b.Prefix))
	})
	s.Worst = s.Worst[:min(len(s.Worst), worst)]
	for i := range s.Worst {
		s.Worst[i] = s.each[s.Worst[i].Prefix].finish(s.From, s.Step)
	}
	for _, d := range s.days {
		s.Days = append(s.Days, *d)
	}
	slices.SortFunc(s.Days, func(a, b Day) int { return a.Start.Compare(b.Start) })
}

// finish makes points of the steps.
func (s *series) finish(from time.Time, step time.Duration) Series {
	for i, h := range s.steps {
		s.Points = append(s.Points, Point{
			At: from.Add(time.Duration(i) * step), Count: h.Count,
			P50: h.Quantile(0.5), P95: h.Quantile(0.95), P99: h.Quantile(0.99),
		})
	}
	slices.SortFunc(s.Points, func(a, b Point) int { return a.At.Compare(b.At) })
	s.Changes = findChanges(s.Points)
	return s.Series
}
