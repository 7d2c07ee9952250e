package output

import (
	"strconv"
	"time"

	"sluice/rtt/report"
)

// ppviz writes RTTs as "time rtt minimum flow", in seconds, with all digits.
type ppviz struct{}

func (ppviz) sample(b []byte, s *report.Sample) []byte {
	b = strconv.AppendInt(b, s.Time.Unix(), 10)
	point := len(b)
	b = strconv.AppendInt(b, int64(time.Second)+int64(s.Time.Nanosecond()), 10) // its leading 1 keeps the zeros
	b[point] = '.'
	b = append(appendUnit(append(b, ' '), s.RTT, time.Second), ' ')
	b = append(appendUnit(b, s.MinRTT, time.Second), ' ')
	return appendPair(b, &s.Ends)
}

func (ppviz) flow(b []byte, _ *report.FlowEvent) []byte { return b }
