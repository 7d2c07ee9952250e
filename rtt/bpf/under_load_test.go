//go:build linux

package bpf

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// TestLateHandOver has a CPU hand over the bytes of a second when others have counted in a newer one, and then again in
// time.
func TestLateHandOver(t *testing.T) {
	onOneCPU(t)
	w := watching(t, MonitorSettings{Icmp: 1, Aggregate: 1, Load: 1000, Ipv4Mask: 0xffffffff})
	frame := wire.Frame(wire.Echo{Length: 56}.Between(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")))
	show := func(second int) { w.show(MonitorProgEgress, time.Duration(second)*time.Second, frame) }
	first := uint32(epoch / time.Second)
	loads := w.m.Maps[MonitorMapPrefixLoads]
	show(0)
	show(1) // hands over
	var key MonitorPrefixKey
	require.NoError(t, loads.NextKey(nil, &key))
	var e MonitorLoadEntry
	require.NoError(t, loads.Lookup(&key, &e))
	bytes := e.Seconds[0].Bytes
	require.Equal(t, first, e.Seconds[0].Second)
	require.NotZero(t, bytes[0]+bytes[1])

	newer := MonitorLoadSecond{Second: first + 3, Bytes: [2]uint64{5000, 6000}}
	e.Seconds[1] = newer // of another CPU
	require.NoError(t, loads.Put(&key, &e))
	show(4) // hands over second 1
	require.NoError(t, loads.Lookup(&key, &e))
	require.Equal(t, newer, e.Seconds[1])
	show(5)
	require.NoError(t, loads.Lookup(&key, &e))
	require.Equal(t, MonitorLoadSecond{Second: first + 4, Bytes: bytes}, e.Seconds[0])
}
