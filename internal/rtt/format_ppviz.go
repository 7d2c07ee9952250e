package rtt

import (
	"fmt"
	"time"
)

// ppviz writes RTTs as "time rtt minimum flow", in seconds, with all digits.
type ppviz struct{}

func (ppviz) sample(b []byte, s *Sample) []byte {
	b = fmt.Appendf(b, "%d.%09d ", s.Time.Unix(), s.Time.Nanosecond())
	b = append(appendUnit(b, s.RTT, time.Second), ' ')
	b = append(appendUnit(b, s.MinRTT, time.Second), ' ')
	return appendPair(b, &s.Ends)
}

func (ppviz) flow(b []byte, _ *FlowEvent) []byte { return b }
