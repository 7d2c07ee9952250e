package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/rtt/bpf"
)

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
