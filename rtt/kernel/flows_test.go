package kernel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/bpf"
)

// TestFlowsOfOneDirection: RTTs of a flow are of the whole path until the other side's packets are seen.
func TestFlowsOfOneDirection(t *testing.T) {
	d := decoderTo(nil)
	var key bpf.MonitorFlowKey
	var f bpf.MonitorFlow
	key.Protocol = 6
	f.Side[1].State, f.Side[1].Packets = uint8(bpf.MonitorSideStateSIDE_WAITING), 3
	f.Side[1].MinRtt, f.Side[1].SmoothedRtt = uint64(30*time.Millisecond), uint64(40*time.Millisecond)
	states := d.appendFlow(nil, &key, &f)
	require.Len(t, states, 1, "nothing is known of the other side")
	require.True(t, states[0].OneDirection)
	require.Equal(t, 30*time.Millisecond, states[0].MinRTT)
	require.Equal(t, 40*time.Millisecond, states[0].SmoothedRTT)

	f.Side[0].Packets = 1
	states = d.appendFlow(nil, &key, &f)
	require.Len(t, states, 1)
	require.False(t, states[0].OneDirection)
}
