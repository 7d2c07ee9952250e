package metrics

import (
	"slices"

	"sluice/rtt/report"
)

const (
	// quietIntervals is how many intervals without traffic a prefix keeps its metrics for, at least. The kernel forgets
	// it after the timeout, which may be shorter than an interval. But a counter that starts again at 0 loses its first
	// counts: Prometheus sees no increase from a value that was not there.
	quietIntervals = 5
	// maxQuiet is how many prefixes are kept that the kernel has forgotten. The last seen stay.
	maxQuiet = 16384
)

// forgetLocked drops the prefixes that were without traffic for the timeout and for some intervals, and counts those
// that the kernel has not forgotten.
func (m *Collector) forgetLocked(i *report.Interval) {
	timeout := i.Aggregation.Timeout
	keep := max(timeout, quietIntervals*i.Aggregation.Every)
	var quiet []string
	for label, p := range m.prefixes {
		switch since := i.End.Sub(p.seen); {
		case since >= keep:
			delete(m.prefixes, label)
		case since >= timeout:
			quiet = append(quiet, label)
		}
	}
	m.followed = len(m.prefixes) - len(quiet)
	if len(quiet) <= maxQuiet {
		return
	}
	slices.SortFunc(quiet, func(a, b string) int { return m.prefixes[b].seen.Compare(m.prefixes[a].seen) })
	for _, label := range quiet[maxQuiet:] {
		delete(m.prefixes, label)
	}
}
