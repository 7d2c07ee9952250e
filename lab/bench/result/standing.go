package result

import (
	"fmt"
	"strings"
)

// Standing is how the subject of a report compares with the other systems: each metric of each scenario that has a
// better and a worse direction is compared with each other system that has a number for it.
type Standing struct {
	// Behind are the metrics by which another system is better, the largest factor first.
	Behind []Behind
	// Worse, Better and Even count comparisons with another system. Even ones are within the spread of the runs.
	Worse, Better, Even int
}

// Behind is a metric of a scenario by which the subject is worse than others, beyond the spread of the runs.
type Behind struct {
	Scenario, Metric string // titles
	Subject          string // its value
	Others           string // each system that is better, with its value
	Factor           Number // to the best of them; Unknown if a value is zero
}

// compare compares one metric of one scenario.
func (st *Standing) compare(r Report, s Scenario, name string, m Metric) {
	subject := s.Summary(r.Subject()).Metrics[name]
	b := Behind{Scenario: s.Title, Metric: WithUnit(m.Title, m.Unit), Subject: subject.String(), Factor: Unknown}
	var better []string
	for _, system := range r.Systems[1:] {
		other, ok := s.Summary(system.Name).Metrics[name]
		switch d := subject.Compare(other) * m.Better; {
		case !ok:
		case d > 0:
			st.Better++
		case d == 0:
			st.Even++
		default:
			better = append(better, fmt.Sprintf("%s: %s", system.Name, other))
			b.Factor = furthest(b.Factor, factor(subject, other))
		}
	}
	if len(better) > 0 {
		b.Others = strings.Join(better, "; ")
		st.Worse += len(better)
		st.Behind = append(st.Behind, b)
	}
}

// factor returns the quotient of the larger and the smaller median; Unknown if it has no meaning.
func factor(a, b Statistic) Number {
	low, high := min(a.Median, b.Median), max(a.Median, b.Median)
	if low <= 0 {
		return Unknown
	}
	return Number(high / low)
}

func furthest(a, b Number) Number {
	if !a.Finite() || b > a {
		return b
	}
	return a
}
