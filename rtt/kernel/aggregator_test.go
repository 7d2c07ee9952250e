package kernel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/bpf"
	"sluice/rtt/report"
)

func TestHistogram(t *testing.T) {
	p := bpf.MonitorRttPeriod{Count: 3, Min: 1e6, Max: 9e6, Sum: 15e6}
	p.Bins[0], p.Bins[2] = 1, 2
	require.Equal(t, report.Histogram{
		Count: 3, Min: time.Millisecond, Max: 9 * time.Millisecond, Sum: 15 * time.Millisecond,
		Width: 4 * time.Millisecond, Bins: []uint64{1, 0, 2},
	}, newHistogram(&p, 4*time.Millisecond))
	require.Equal(t, report.Histogram{Width: 1}, newHistogram(&bpf.MonitorRttPeriod{Count: 1}, 1))
}

// Flows leave the table in four ways.
func TestFlowsNow(t *testing.T) {
	var set bpf.MonitorCounterSet
	set.Tally[bpf.MonitorTallyTALLY_FLOWS_CREATED] = 100
	set.Tally[bpf.MonitorTallyTALLY_FLOWS_FULL] = 50 // these never were in it
	for i, gone := range []bpf.MonitorTally{
		bpf.MonitorTallyTALLY_FLOWS_DELETED, bpf.MonitorTallyTALLY_FLOWS_EXPIRED,
		bpf.MonitorTallyTALLY_FLOWS_EVICTED, bpf.MonitorTallyTALLY_FLOWS_MOVED,
	} {
		set.Tally[gone] = 20
		require.EqualValues(t, 100-20*(i+1), flowsNow(&set))
	}
	set.Tally[bpf.MonitorTallyTALLY_FLOWS_EVICTED] = 200
	require.Zero(t, flowsNow(&set))
}
