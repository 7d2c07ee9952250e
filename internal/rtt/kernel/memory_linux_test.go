package kernel

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/bpf"
	"sluice/internal/rtt/report"
)

// memoryOf returns what the tables take, by name.
func memoryOf(t *testing.T, k *Programs) map[string]report.TableMemory {
	t.Helper()
	all, err := k.Memory()
	require.NoError(t, err)
	tables := make(map[string]report.TableMemory)
	for _, m := range all {
		tables[m.Name] = m
	}
	return tables
}

// What is computed for a full table is within 2 % of what the kernel says once it is full.
func TestMemory(t *testing.T) {
	requireKernel(t)
	const prefixes = 1000
	settings := bpf.MonitorSettings{Tcp: 1, Aggregate: 1, Traffic: 1, Batch: 1}
	limits := bpf.Limits{Flows: 1000, Stamps: 1000, Prefixes: prefixes - 2, RingBytes: 4096}
	k, err := Load(settings, limits, []string{bpf.MonitorProgIngress})
	require.NoError(t, err)
	defer k.Close()
	empty := memoryOf(t, k)
	a, err := NewAggregator(k.Monitor, report.Aggregation{}, nil, prefixes)
	require.NoError(t, err)
	for i := range uint32(prefixes - 2) {
		var key bpf.MonitorAddress
		binary.NativeEndian.PutUint32(key.Bytes[4:], i+1)
		require.Eventually(t, func() bool { return a.add(key) == nil }, 10*time.Second, time.Millisecond,
			"the kernel gets memory for entries in the background")
	}
	full := memoryOf(t, k)
	for _, name := range []string{bpf.MonitorMapPrefixRtts, bpf.MonitorMapPrefixTraffic} {
		require.EqualValues(t, prefixes, full[name].Entries)
		require.InEpsilon(t, full[name].Now, empty[name].Max, 0.02, name)
	}
	flows := full[bpf.MonitorMapFlows]
	require.Equal(t, flows.Now, flows.Max, "has its memory from the start")
}
