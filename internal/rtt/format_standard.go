package rtt

import (
	"fmt"
	"time"
)

// standard is the text for people.
type standard struct{}

const clockLayout = "15:04:05.000000000"

func (standard) sample(b []byte, s *Sample) []byte {
	b = append(s.Time.AppendFormat(b, clockLayout), ' ')
	b = append(appendUnit(b, s.RTT, time.Millisecond), " ms "...)
	b = append(appendUnit(b, s.MinRTT, time.Millisecond), " ms "...)
	b = append(append(b, s.Protocol...), ' ')
	b = appendPair(b, &s.Ends)
	b = appendPlace(b, &s.Ends)
	switch {
	case s.DNS != nil:
		b = s.DNS.append(b)
	case s.QUIC != nil:
		b = s.QUIC.append(b, s.Method)
	}
	return b
}

func (standard) flow(b []byte, f *FlowEvent) []byte {
	b = append(f.Time.AppendFormat(b, clockLayout), ' ')
	b = append(append(b, f.Protocol...), ' ')
	b = appendPair(b, &f.Ends)
	verb := "closing"
	if f.Opening {
		verb = "opening"
	}
	b = fmt.Appendf(b, " %s due to %s from %s", verb, f.Reason, f.Trigger)
	return appendPlace(b, &f.Ends)
}

// appendPlace says where the flow was seen, if that tells it apart from others.
func appendPlace(b []byte, e *Ends) []byte {
	if e.Interface != "" {
		b = append(append(b, " on "...), e.Interface...)
	}
	if e.VLAN != 0 {
		b = fmt.Appendf(b, " vlan %d", e.VLAN)
	}
	return b
}

func (d *DNS) append(b []byte) []byte {
	b = fmt.Appendf(b, " %s %s", typeName(d.Type), rcodeName(d.RCode))
	if d.Truncated {
		b = append(b, " truncated"...)
	}
	if d.Ambiguous {
		b = append(b, " ambiguous"...)
	}
	return b
}

func (q *QUIC) append(b []byte, method Method) []byte {
	b = append(append(b, ' '), method...)
	if q.Near != 0 {
		b = append(appendUnit(append(b, " near "...), q.Near, time.Millisecond), " ms"...)
	}
	if q.Far != 0 {
		b = append(appendUnit(append(b, " far "...), q.Far, time.Millisecond), " ms"...)
	}
	return b
}
