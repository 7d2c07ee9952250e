package report_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// Every sink takes everything, even if another one fails.
func TestTee(t *testing.T) {
	var a, b reporttest.Sink
	tee := report.Tee{&a, failing{}, &b}
	require.ErrorIs(t, tee.Sample(reporttest.TCP()), errFull)
	require.ErrorIs(t, tee.Flow(reporttest.Opening()), errFull)
	require.ErrorIs(t, tee.Interval(reporttest.Interval()), errFull)
	require.ErrorIs(t, tee.Flush(), errFull)
	require.Equal(t, a, b)
	require.Len(t, a.Samples, 1)
	require.Len(t, a.Flows, 1)
	require.Len(t, a.Intervals, 1)
	require.Equal(t, 1, a.Flushed)
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Sample(*report.Sample) error     { return errFull }
func (failing) Flow(*report.FlowEvent) error    { return errFull }
func (failing) Interval(*report.Interval) error { return errFull }
func (failing) Flush() error                    { return errFull }
