//go:build linux

package bpf

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// The group of an address is looked up once, and again when the groups have changed.
func TestGroupAnswers(t *testing.T) {
	w := watching(t, MonitorSettings{Tcp: 1, Aggregate: 1, Traffic: 1, Groups: 1})
	everything := MonitorGroupLookup{}
	counted := func() (numbers []uint32) {
		w.show(MonitorProgEgress, 0, wire.Frame(pure.Between(server, client)))
		var key MonitorPrefixKey
		var traffic []MonitorTrafficEntry
		for all := w.m.Maps[MonitorMapPrefixTraffic].Iterate(); all.Next(&key, &traffic); {
			numbers = append(numbers, uint32(key.Prefix))
			require.NoError(t, w.m.Maps[MonitorMapPrefixTraffic].Delete(key))
		}
		return numbers
	}
	require.NoError(t, w.m.Maps[MonitorMapGroups].Put(everything, uint32(7)))
	require.Equal(t, []uint32{7}, counted())
	require.NoError(t, w.m.Maps[MonitorMapGroups].Put(everything, uint32(8)))
	require.Equal(t, []uint32{7}, counted(), "the answer is kept")
	require.NoError(t, w.m.Variables[MonitorVarGroupGeneration].Set(uint32(1)))
	require.Equal(t, []uint32{8}, counted())
	require.NoError(t, w.m.Maps[MonitorMapGroups].Delete(everything))
	require.NoError(t, w.m.Variables[MonitorVarGroupGeneration].Set(uint32(2)))
	require.Equal(t, []uint32{0}, counted(), "of no group")
}
