package history

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"sluice/internal/rtt/report"
)

const (
	maxSteps   = 240  // of a series
	candidates = 1000 // prefixes, those with the most RTTs, of which the worst are sought
	minRTTs    = 20   // of a prefix that can be among the worst
)

// ErrEmpty is returned if a history has nothing of a time, and ErrNoPrefix if it has nothing of a prefix then.
var (
	ErrEmpty    = errors.New("nothing was measured in that time")
	ErrNoPrefix = errors.New("nothing was measured of that prefix in that time")
)

// Summary is what a history tells about some time.
type Summary struct {
	From, To time.Time
	Step     time.Duration
	Prefixes int // with RTTs
	All      Series
	Worst    []Series // prefixes with the largest 95th percentiles, the worst first
	Days     []Day
	Parts    []string // names of the parts of RTTs that there are, sorted
	Skipped  int      // rows whose bins have another width than the first ones
}

// Series is what was measured of a prefix, over time.
type Series struct {
	Prefix string // with what else tells it apart; "" for all prefixes together
	RTT    report.Histogram
	Parts  map[string]*report.Histogram // by their names
	Bytes  uint64                       // to and from it
	Congestion
	Loss           report.Loss // of QUIC, in both directions
	Sent, Received Direction
	Points         []Point // those with RTTs
	Changes        []Change
}

// Congestion is what tells of congestion, besides losses of QUIC.
type Congestion struct {
	TCPSegments, Retransmissions uint64 // the second are a part of the first
	ECNCapable, ECNMarked        uint64 // as well
}

// Direction is what is known of the packets that a prefix sent, or received. Files of earlier versions do not have its
// Congestion.
type Direction struct {
	Congestion
	Loss report.Loss // of QUIC
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

// Summarize reads what a history has of a query, and seeks that many of the worst prefixes.
func Summarize(dir string, q Query, worst int) (*Summary, error) {
	o, err := look(dir, q)
	if err != nil {
		return nil, err
	}
	s := newSummarizer(o)
	if err := q.read(dir, s.add); err != nil {
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

// look makes the overview of a query.
func look(dir string, q Query) (*overview, error) {
	o := &overview{prefixes: make(map[string]uint64)}
	if err := q.read(dir, o.add); err != nil {
		return nil, err
	}
	switch {
	case len(o.prefixes) > 0:
		return o, nil
	case q.Prefix != "":
		return nil, ErrNoPrefix
	}
	return nil, ErrEmpty
}

// histogram returns the histogram of a row, if its bins have the width of the first ones. Otherwise it returns none,
// and removes the parts of the row, too.
func (o *overview) histogram(r *Row) (h report.Histogram, skipped bool) {
	if r.Width != o.width && (r.RTTs > 0 || len(r.Parts) > 0) {
		r.Parts = nil
		return h, true
	}
	return r.Histogram(), false
}

func (o *overview) add(r *Row) error {
	if r.RTTs == 0 {
		return nil
	}
	if len(o.prefixes) == 0 {
		o.from, o.width = r.Start, r.Width
	}
	o.prefixes[r.Label()] += r.RTTs
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
	overview *overview
	all      *series
	each     map[string]*series
	days     map[int64]*Day
}

func newSummarizer(o *overview) *summarizer {
	s := &summarizer{
		Summary:  Summary{From: o.from, To: o.to, Step: stepOf(o.to.Sub(o.from), o.longest), Prefixes: len(o.prefixes)},
		overview: o, all: newSeries(""), days: make(map[int64]*Day), each: make(map[string]*series),
	}
	for _, prefix := range o.busiest() {
		s.each[prefix] = newSeries(prefix)
	}
	return s
}

// series is a Series that is being made. It has the histogram of one step at a time: those of all steps of a month
// would take 0.8 MB for each prefix.
type series struct {
	Series
	at   time.Time        // where the step begins
	step report.Histogram // what was measured in it
}

func newSeries(prefix string) *series { return &series{Series: newTotal(prefix)} }

func (s *summarizer) add(r *Row) error {
	h, skipped := s.overview.histogram(r)
	if skipped {
		s.Skipped++
	}
	at := s.From.Add(max(0, r.Start.Sub(s.From)).Truncate(s.Step))
	s.all.add(r, &h, at)
	if one := s.each[r.Label()]; one != nil {
		one.add(r, &h, at)
	}
	if h.Count > 0 {
		s.hour(r.Start).Add(&h)
	}
	return nil
}

// add adds a row, whose histogram is h, in the step that begins at a time. Rows come in the order of time; if the clock
// was set back, a time may have two points.
func (s *series) add(r *Row, h *report.Histogram, at time.Time) {
	s.Series.add(r, h)
	if h.Count == 0 {
		return
	}
	if !at.Equal(s.at) {
		s.endStep()
		s.at = at
	}
	s.step.Add(h)
}

// endStep makes a point of the step.
func (s *series) endStep() {
	h := &s.step
	if h.Count == 0 {
		return
	}
	s.Points = append(s.Points, Point{
		At: s.at, Count: h.Count, P50: h.Quantile(0.5), P95: h.Quantile(0.95), P99: h.Quantile(0.99),
	})
	clear(h.Bins)
	*h = report.Histogram{Bins: h.Bins} // for the next step
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
	s.All = s.all.finish()
	s.Parts = slices.Sorted(maps.Keys(s.All.Parts))
	for _, one := range s.each {
		s.Worst = append(s.Worst, one.Series)
	}
	slices.SortFunc(s.Worst, func(a, b Series) int {
		return cmp.Or(cmp.Compare(b.RTT.Quantile(0.95), a.RTT.Quantile(0.95)), cmp.Compare(a.Prefix, b.Prefix))
	})
	s.Worst = s.Worst[:min(len(s.Worst), worst)]
	for i := range s.Worst {
		s.Worst[i] = s.each[s.Worst[i].Prefix].finish()
	}
	for _, d := range s.days {
		s.Days = append(s.Days, *d)
	}
	slices.SortFunc(s.Days, func(a, b Day) int { return a.Start.Compare(b.Start) })
}

// finish ends the last step, and seeks changes.
func (s *series) finish() Series {
	s.endStep()
	slices.SortStableFunc(s.Points, func(a, b Point) int { return a.At.Compare(b.At) })
	s.Changes = findChanges(s.Points)
	return s.Series
}
