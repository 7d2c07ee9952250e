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
	maxHeat    = 35   // days of which there are the hours of a prefix; more than so many of all are joined to weeks
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
	Alone    []Alone
	Days     []Day
	HeatFrom time.Time         // where the Hours of the worst begin
	Parts    []string          // names of the parts of RTTs that there are, sorted
	OverTime map[string]Points // of each part, of all prefixes together
	Skipped  int               // rows whose bins have another width than the first ones
}

// Alone is a part that some prefixes have without RTTs: those that answer queries, and nothing else that is timed.
type Alone struct {
	Part     string
	Prefixes int      // that have it
	Worst    []Series // as in Summary, by the 95th percentile of the part; Points, Changes and Hours are of it
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
	Points         Points
	Changes        []Change
	Hours          []Hours // of each day from HeatFrom on; those of all prefixes are in Days
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

// Points are the steps of a Series that have RTTs.
type Points []Point

// Point is one step of a Series.
type Point struct {
	At            time.Time
	Count         uint64
	P50, P95, P99 time.Duration
}

// Day is the RTTs of a day, or of several days, by the hour, in UTC.
type Day struct {
	Start time.Time
	Days  int
	Hours [24]report.Histogram
}

// Hours are the 95th percentiles of a day, by the hour, in UTC; 0 where there are no RTTs.
type Hours [24]time.Duration

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

// summarizer makes a Summary.
type summarizer struct {
	Summary
	overview *overview
	all      *series
	parts    map[string]*steps             // of all prefixes
	each     map[string]map[string]*series // by the part that they are about, "" for RTTs, and by prefix
	days     map[int64]*Day
	span     time.Duration // of a Day
}

func newSummarizer(o *overview) *summarizer {
	s := &summarizer{
		Summary: Summary{
			From: o.from, To: o.to, Step: stepOf(o.to.Sub(o.from), o.longest), Prefixes: len(o.rtts),
			OverTime: make(map[string]Points), HeatFrom: o.firstHeat(),
		},
		overview: o, parts: make(map[string]*steps), each: make(map[string]map[string]*series),
		days: make(map[int64]*Day), span: spanOf(o.to.Sub(o.from)),
	}
	s.all = s.newSeries("", "")
	for _, part := range o.alone() {
		s.Alone = append(s.Alone, Alone{Part: part, Prefixes: len(o.parts[part])})
		s.follow(part, o.parts[part])
	}
	s.follow("", o.rtts)
	return s
}

// follow makes series of the prefixes with the most RTTs of a part.
func (s *summarizer) follow(part string, counts map[string]uint64) {
	s.each[part] = make(map[string]*series)
	for _, prefix := range busiest(counts) {
		s.each[part][prefix] = s.newSeries(prefix, part)
	}
}

// spanOf returns of how many days a Day is, so that there are at most about 50 of them in some years.
func spanOf(d time.Duration) time.Duration {
	switch {
	case d <= maxHeat*oneDay:
		return oneDay
	case d <= 52*7*oneDay:
		return 7 * oneDay
	default:
		return 28 * oneDay
	}
}

func (s *summarizer) add(r *Row) error {
	h, skipped := s.overview.histogram(r)
	if skipped {
		s.Skipped++
	}
	at := s.From.Add(max(0, r.middle().Sub(s.From)).Truncate(s.Step))
	s.all.add(r, &h, at)
	for i := range r.Parts {
		part := r.Parts[i].Histogram(r)
		s.partSteps(r.Parts[i].Name).add(at, &part)
	}
	for _, prefixes := range s.each {
		if one := prefixes[r.Label()]; one != nil {
			one.add(r, &h, at)
		}
	}
	if h.Count > 0 {
		s.hour(r.hour()).Add(&h)
	}
	return nil
}

func (s *summarizer) partSteps(part string) *steps {
	if s.parts[part] == nil {
		s.parts[part] = new(steps)
	}
	return s.parts[part]
}

// hour returns the histogram of the day and hour that a time is in.
func (s *summarizer) hour(at time.Time) *report.Histogram {
	first := s.From.UTC().Truncate(oneDay)
	start := first.Add(at.Sub(first).Truncate(s.span))
	if s.days[start.Unix()] == nil {
		s.days[start.Unix()] = &Day{Start: start, Days: int(s.span / oneDay)}
	}
	return &s.days[start.Unix()].Hours[at.Hour()]
}

func (s *summarizer) finish(worst int) {
	s.All = s.all.finish()
	s.Parts = slices.Sorted(maps.Keys(s.All.Parts))
	for part, steps := range s.parts {
		s.OverTime[part] = steps.finish()
	}
	s.Worst = worstOf(s.each[""], worst)
	for i := range s.Alone {
		s.Alone[i].Worst = worstOf(s.each[s.Alone[i].Part], worst)
	}
	for _, d := range s.days {
		s.Days = append(s.Days, *d)
	}
	slices.SortFunc(s.Days, func(a, b Day) int { return a.Start.Compare(b.Start) })
}

// worstOf returns the worst ones of some series.
func worstOf(each map[string]*series, worst int) (list []Series) {
	all := slices.SortedFunc(maps.Values(each), func(a, b *series) int {
		return cmp.Or(cmp.Compare(b.own().Quantile(0.95), a.own().Quantile(0.95)), cmp.Compare(a.Prefix, b.Prefix))
	})
	for _, one := range all[:min(len(all), worst)] {
		if one.own().Count > 0 { // its bins have the width of the first ones
			list = append(list, one.finish())
		}
	}
	return list
}
