package output

import (
	"fmt"
	"time"

	"sluice/rtt/report"
)

// aggregateEncoder is the encoder of a format for aggregated values.
type aggregateEncoder interface {
	aggregation([]byte, *report.Interval) []byte // once after each opening of a file, before all values
	prefix([]byte, *report.Interval, *report.Prefix) []byte
	totals([]byte, *report.Interval) []byte
}

func appendRTTs(b []byte, h *report.Histogram) []byte {
	b = fmt.Appendf(b, "rtt-count=%d", h.Count)
	for _, v := range summary(h) {
		b = append(b, ", "+v.name+"="...)
		b = append(appendUnit(b, v.value, time.Millisecond), " ms"...)
	}
	return b
}

type namedDuration struct {
	name  string
	value time.Duration
}

// summary returns the figures of a histogram.
func summary(h *report.Histogram) []namedDuration {
	return []namedDuration{
		{"min", h.Min}, {"mean", h.Mean()}, {"median", h.Quantile(0.5)}, {"p95", h.Quantile(0.95)}, {"max", h.Max},
	}
}

// inside returns the text before element n of a list that begins with the given text.
func inside(n int, begin string) string {
	if n == 0 {
		return begin
	}
	return ", "
}

// closing ends a list, unless it is empty.
func closing(b []byte, elements int) []byte {
	if elements == 0 {
		return b
	}
	return append(b, ')')
}
