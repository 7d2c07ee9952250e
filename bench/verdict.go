package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// loss is a metric by which a system is worse than another, beyond the spread of the runs.
type loss struct {
	Scenario, Metric string // titles
	Ours, Theirs     string
	Other            string // the system that is better
	Factor           number // by which it is better; Inf if a value is zero
}

// subject is the system that the others are compared with.
func (r Report) subject() string {
	if len(r.Systems) == 0 {
		return ""
	}
	return r.Systems[0].Name
}

// losses are all of the subject's, the largest first. wins and ties count the other comparisons.
func (r Report) losses() (losses []loss, wins, ties int) {
	for _, s := range r.Scenarios {
		ours := s.summary(r.subject()).Metrics
		for _, other := range r.Systems[min(1, len(r.Systems)):] {
			theirs := s.summary(other.Name).Metrics
			for _, name := range slices.Sorted(maps.Keys(ours)) {
				m := r.metric(name)
				if _, ok := theirs[name]; !ok || m.Better == 0 {
					continue
				}
				switch d := order(ours[name], theirs[name]) * m.Better; {
				case d > 0:
					wins++
				case d == 0:
					ties++
				default:
					losses = append(losses, newLoss(s, m, ours[name], theirs[name], other.Name))
				}
			}
		}
	}
	slices.SortStableFunc(losses, func(a, b loss) int { return cmp.Compare(b.Factor, a.Factor) })
	return losses, wins, ties
}

// order is 1 if a is larger than b beyond the spread of the runs, -1 if it is smaller, 0 if neither.
func order(a, b Statistic) int {
	if !apart(a, b) {
		return 0
	}
	return cmp.Compare(a.Median, b.Median)
}

func newLoss(s Scenario, m Metric, ours, theirs Statistic, other string) loss {
	a, b := math.Abs(ours.Median), math.Abs(theirs.Median)
	return loss{Scenario: s.Title, Metric: withUnit(m.Title, m.Unit), Other: other,
		Ours: ours.String(), Theirs: theirs.String(), Factor: number(max(a, b) / min(a, b))}
}

// Against is how much better the other is.
func (l loss) Against() string {
	if !l.Factor.finite() {
		return l.Other
	}
	return fmt.Sprintf("%s (%s times)", l.Other, l.Factor)
}
