package output

import (
	"fmt"
	"time"

	"sluice/internal/rtt/report"
)

// aggregateEncoder is the encoder of a format for aggregated values.
type aggregateEncoder interface {
	aggregation([]byte, *report.Interval) []byte // once, before everything else
	prefix([]byte, *report.Interval, *report.Prefix) []byte
	totals([]byte, *report.Interval) []byte
}

// Interval writes what was aggregated.
func (w *Writer) Interval(i *report.Interval) error {
	enc, ok := w.enc.(aggregateEncoder)
	if !ok {
		return fmt.Errorf("--format: %s has no aggregates: must be standard, json or jsonl", w.format)
	}
	if !w.wrote {
		if err := w.write(enc.aggregation(w.line[:0], i)); err != nil {
			return err
		}
	}
	for n := range i.Prefixes {
		if err := w.write(enc.prefix(w.line[:0], i, &i.Prefixes[n])); err != nil {
			return err
		}
	}
	return w.write(enc.totals(w.line[:0], i))
}

func (standard) aggregation(b []byte, i *report.Interval) []byte {
	b = append(b, "Aggregating RTTs in histograms with "...)
	if width := i.Aggregation.BinWidth; width == 0 {
		b = fmt.Appendf(b, "%d logarithmic", report.LogarithmicBins)
	} else {
		b = appendUnit(fmt.Appendf(b, "%d ", report.LinearBins), width, time.Millisecond)
		b = append(b, " ms wide"...)
	}
	b = append(b, " bins every "...)
	b = appendUnit(b, i.Aggregation.Every, time.Second)
	return append(b, " seconds"...)
}

func (standard) prefix(b []byte, i *report.Interval, p *report.Prefix) []byte {
	b = i.End.AppendFormat(b, clockLayout)
	b = fmt.Appendf(b, ": %s -> ", p.Label())
	rx, tx := p.Sent.Total(), p.Received.Total() // as ePPing counts: the monitor receives what the prefix sends
	b = fmt.Appendf(b, "rxpkts=%d, rxbytes=%d, txpkts=%d, txbytes=%d", rx.Packets, rx.Bytes, tx.Packets, tx.Bytes)
	if p.RTT.Count > 0 {
		b = appendRTTs(append(b, ", "...), &p.RTT)
	}
	for _, part := range p.Parts() {
		b = append(appendRTTs(append(b, ", "+part.Name+"=("...), part.RTTs), ')')
	}
	return b
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

func (standard) totals(b []byte, i *report.Interval) []byte {
	b = append(i.End.AppendFormat(b, clockLayout), ": "...)
	for n, t := range i.Transports {
		b = fmt.Appendf(b, "%s%s=(pkts=%d, bytes=%d)", inside(n, ""), t.Name, t.Packets, t.Bytes)
	}
	if len(i.Transports) == 0 {
		b = append(b, "pkts=0, bytes=0"...)
	}
	for n, e := range i.ECN {
		b = fmt.Appendf(b, "%s%s=%d", inside(n, ", ECN=("), e.Name, e.Packets)
	}
	b = closing(b, len(i.ECN))
	for n, e := range i.Errors {
		b = fmt.Appendf(b, "%s%s=%d", inside(n, ", errors=("), e.Name, e.Count)
	}
	return closing(b, len(i.Errors))
}

// inside returns what precedes element n of a list that begins with the given text.
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
