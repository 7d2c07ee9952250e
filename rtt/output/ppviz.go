package output

import (
	"fmt"
	"time"

	"sluice/rtt/report"
)

// ppviz writes RTTs as "time rtt minimum flow", in seconds, with all digits.
type ppviz struct{}

func (ppviz) sample(b []byte, s *report.Sample) []byte {
	b = fmt.Appendf(b, "%d.%09d ", s.Time.Unix(), s.Time.Nanosecond())
	b = append(appendUnit(b, s.RTT, time.Second), ' ')
	b = append(appendUnit(b, s.MinRTT, time.Second), ' ')
	return appendPair(b, &s.Ends)
}

func (ppviz) flow(b []byte, _ *report.FlowEvent) []byte { return b }
