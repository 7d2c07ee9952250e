package output

import (
	"fmt"
	"time"

	"sluice/rtt/report"
)

// standard is the text for people.
type standard struct{}

const clockLayout = "15:04:05.000000000"

func (standard) sample(b []byte, s *report.Sample) []byte {
	b = append(s.Time.AppendFormat(b, clockLayout), ' ')
	b = append(appendUnit(b, s.RTT, time.Millisecond), " ms "...)
	b = append(appendUnit(b, s.MinRTT, time.Millisecond), " ms "...)
	b = append(append(b, s.Protocol...), ' ')
	b = appendPair(b, &s.Ends)
	b = s.AppendPlace(b)
	switch {
	case s.DNS != nil:
		b = appendDNS(b, s.DNS)
	case s.QUIC != nil:
		b = appendQUIC(b, s.QUIC, s.Method)
	}
	if s.Ambiguous {
		b = append(b, " ambiguous"...)
	}
	if s.OneDirection {
		b = append(b, " one direction"...)
	}
	return b
}

func (standard) flow(b []byte, f *report.FlowEvent) []byte {
	b = append(f.Time.AppendFormat(b, clockLayout), ' ')
	b = append(append(b, f.Protocol...), ' ')
	b = appendPair(b, &f.Ends)
	verb := "closing"
	if f.Opening {
		verb = "opening"
	}
	b = fmt.Appendf(b, " %s due to %s from %s", verb, f.Reason, f.Trigger)
	return f.AppendPlace(b)
}

func appendDNS(b []byte, d *report.DNS) []byte {
	b = fmt.Appendf(b, " %s %s", d.TypeName(), d.RCodeName())
	if d.Truncated {
		b = append(b, " truncated"...)
	}
	if d.OverTCP {
		b = append(b, " over TCP"...)
	}
	return b
}

func appendQUIC(b []byte, q *report.QUIC, method report.Method) []byte {
	b = append(append(b, ' '), method...)
	if q.Near != 0 {
		b = append(appendUnit(append(b, " near "...), q.Near, time.Millisecond), " ms"...)
	}
	if q.Far != 0 {
		b = append(appendUnit(append(b, " far "...), q.Far, time.Millisecond), " ms"...)
	}
	return b
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
