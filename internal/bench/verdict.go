package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// loss is a metric of a scenario by which the subject is worse than others, beyond the spread of the runs.
type loss struct {
	Scenario, Metric string // titles
	Ours             string
	Theirs           string // each system that is better, with its value
	Factor           number // to the best of them; unknown if a value is zero
}

// negligible is the share of a value by which others may differ from it without being better or worse: single runs have no spread.
const negligible = 0.02

// subject is the system that the others are compared with.
func (r Report) subject() string {
	if len(r.Systems) == 0 {
		return ""
	}
	return r.Systems[0].Name
}

// losses are all of the subject's, the largest first. wins and ties count the other comparisons with another system, worse the lost.
func (r Report) losses() (losses []loss, worse, wins, ties int) {
	for _, s := range r.Scenarios {
		ours := s.summary(r.subject()).Metrics
		for _, name := range names([]Scenario{s}, metricsOf) {
			m := r.metric(name)
			our, ok := ours[name]
			if !ok || m.Better == 0 {
				continue
			}
			l := loss{Scenario: s.Title, Metric: withUnit(m.Title, m.Unit), Ours: our.String(), Factor: unknown}
			var better []string
			for _, other := range r.Systems[1:] {
				their, ok := s.summary(other.Name).Metrics[name]
				switch d := order(our, their) * m.Better; {
				case !ok:
				case d > 0:
					wins++
				case d == 0:
					ties++
				default:
					better = append(better, fmt.Sprintf("%s: %s", other.Name, their))
					l.Factor = furthest(l.Factor, factor(our, their))
				}
			}
			if l.Theirs = strings.Join(better, "; "); len(better) > 0 {
				worse, losses = worse+len(better), append(losses, l)
			}
		}
	}
	slices.SortStableFunc(losses, func(a, b loss) int { return cmp.Compare(b.Factor, a.Factor) })
	return losses, worse, wins, ties
}

// factor is how many times the larger is the smaller, as far as that means anything.
func factor(a, b Statistic) number {
	low, high := min(a.Median, b.Median), max(a.Median, b.Median)
	if low <= 0 {
		return unknown
	}
	return number(high / low)
}

func furthest(a, b number) number {
	if !a.finite() || b > a {
		return b
	}
	return a
}

// order is 1 if a is larger than b beyond the spread of the runs, -1 if it is smaller, 0 if neither.
func order(a, b Statistic) int {
	if !apart(a, b) || math.Abs(a.Median-b.Median) <= negligible*max(math.Abs(a.Median), math.Abs(b.Median)) {
		return 0
	}
	return cmp.Compare(a.Median, b.Median)
}
