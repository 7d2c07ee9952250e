package rtt

import (
	"fmt"
	"time"
)

// aggregateEncoder is an encoder that can write what was aggregated.
type aggregateEncoder interface {
	aggregation([]byte, *Interval) []byte // once, before all else
	prefix([]byte, *Interval, *Prefix) []byte
	totals([]byte, *Interval) []byte
}

// Interval writes what was aggregated.
func (w *Writer) Interval(i *Interval) error {
	enc, ok := w.enc.(aggregateEncoder)
	if !ok {
		return fmt.Errorf("format %s has nothing for aggregates: choose standard, json or jsonl", w.format)
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

func (standard) aggregation(b []byte, i *Interval) []byte {
	b = fmt.Appendf(b, "Aggregating RTTs in histograms with %d ", Bins)
	b = appendUnit(b, i.Aggregation.BinWidth, time.Millisecond)
	b = append(b, " ms wide bins every "...)
	b = appendUnit(b, i.Aggregation.Every, time.Second)
	return append(b, " seconds"...)
}

func (standard) prefix(b []byte, i *Interval, p *Prefix) []byte {
	b = i.End.AppendFormat(b, clockLayout)
	b = append(p.AppendTo(append(b, ": "...)), " -> "...)
	rx, tx := p.Received.Total(), p.Sent.Total()
	b = fmt.Appendf(b, "rxpkts=%d, rxbytes=%d, txpkts=%d, txbytes=%d, rtt-count=%d", rx.Packets, rx.Bytes, tx.Packets, tx.Bytes, p.RTT.Count)
	if p.RTT.Count == 0 {
		return b
	}
	for _, v := range p.RTT.summary() {
		b = append(b, ", "+v.name+"="...)
		b = append(appendUnit(b, v.value, time.Millisecond), " ms"...)
	}
	return b
}

type namedDuration struct {
	name  string
	value time.Duration
}

// summary is what is said of a histogram in words.
func (h *Histogram) summary() []namedDuration {
	return []namedDuration{
		{"min", h.Min}, {"mean", h.Mean()}, {"median", h.Quantile(0.5)}, {"p95", h.Quantile(0.95)}, {"max", h.Max},
	}
}

func (standard) totals(b []byte, i *Interval) []byte {
	b = i.End.AppendFormat(b, clockLayout)
	separator := ": "
	for _, t := range i.Transports {
		b = fmt.Appendf(b, "%s%s=(pkts=%d, bytes=%d)", separator, t.Name, t.Packets, t.Bytes)
		separator = ", "
	}
	if len(i.ECN) > 0 {
		b = append(b, separator+"ECN=("...)
		for n, e := range i.ECN {
			b = fmt.Appendf(b, "%s%s=%d", comma(n), e.Name, e.Packets)
		}
		b = append(b, ')')
		separator = ", "
	}
	b = append(b, separator+"errors=("...)
	for n, e := range i.Errors {
		b = fmt.Appendf(b, "%s%s=%d", comma(n), e.Name, e.Count)
	}
	return append(b, ')')
}

func comma(n int) string {
	if n == 0 {
		return ""
	}
	return ", "
}
