//go:build linux

package bpf

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// The two directions of a prefix have periods of their own, and counters of 32 bits stay at the largest number.
func TestTrafficOfAPrefix(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1, Aggregate: 1, Traffic: 1, Ipv4Mask: 0xffffffff})
	marked := ip4(func(h *wire.IP) { h.ECN = 3 })
	send := func() { w.show(MonitorProgEgress, 0, wire.Frame(marked)) }
	var key MonitorPrefixKey
	sender := func(period uint32) (all []MonitorTrafficEntry, cpu int) { // a CPU that has counted in the period
		traffic := w.m.Maps[MonitorMapPrefixTraffic]
		for each := traffic.Iterate(); each.Next(&key, &all); {
			for cpu := range all {
				if all[cpu].Sent[1].Period == period {
					return all, cpu
				}
			}
		}
		require.Fail(t, "nothing was counted")
		return nil, 0
	}
	require.NoError(t, w.m.Variables[MonitorVarPeriod].Set(uint32(1)))
	send()
	entries, cpu := sender(1)
	require.EqualValues(t, 1, entries[cpu].Sent[1].EcnMarked)
	require.Zero(t, entries[cpu].Received, "has sent only")

	for i := range entries {
		entries[i].Sent[1] = entries[cpu].Sent[1]
		entries[i].Sent[1].EcnCapable, entries[i].Sent[1].EcnMarked = math.MaxUint32, math.MaxUint32-1
	}
	require.NoError(t, w.m.Maps[MonitorMapPrefixTraffic].Put(key, entries))
	for range 3 {
		send()
	}
	now := MonitorTraffic{}
	entries, _ = sender(1)
	for i := range entries {
		sent := entries[i].Sent[1]
		require.EqualValues(t, math.MaxUint32, sent.EcnCapable)
		require.GreaterOrEqual(t, sent.EcnMarked, uint32(math.MaxUint32-1))
		now.Packets += sent.Traffic[MonitorTrafficClassTRAFFIC_TCP_TIMESTAMPS].Packets
	}
	require.EqualValues(t, len(entries)+3, now.Packets)

	require.NoError(t, w.m.Variables[MonitorVarPeriod].Set(uint32(3)))
	send()
	entries, cpu = sender(3)
	require.EqualValues(t, 1, entries[cpu].Sent[1].EcnMarked, "values of an older period are cleared")
}
