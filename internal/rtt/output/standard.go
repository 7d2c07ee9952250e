package output

import (
	"fmt"
	"time"

	"sluice/internal/rtt/report"
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
