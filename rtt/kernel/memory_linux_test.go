package kernel

import (
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/rtt/bpf"
	"sluice/rtt/report"
)

// memoryOf returns the memory of the tables, by name.
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

// The computed memory of a full table is within 2 % of the kernel's figure once it is full.
func TestMemory(t *testing.T) {
	requireKernel(t)
	const prefixes = 1000
	settings := bpf.MonitorSettings{Tcp: 1, Aggregate: 1, Traffic: 1, Batch: 1}
	limits := bpf.Limits{Flows: 1000, Stamps: 1000, Prefixes: prefixes - 2, RingBytes: 4096}
	k, err := Load(settings, limits, []string{bpf.MonitorProgIngress})
	require.NoError(t, err)
	defer k.Close()
	empty := memoryOf(t, k)
	a, err := NewAggregator(k.Monitor, AggregatorConfig{Limit: prefixes, Kinds: bpf.RTTKinds(settings)})
	require.NoError(t, err)
	for i := range uint32(prefixes - 2) {
		key := bpf.MonitorPrefixKey{Prefix: uint64(i + 1)}
		added := func() bool { return a.add(key, a.config.Kinds) == nil }
		require.Eventually(t, added, time.Minute, time.Millisecond,
			"the kernel gets memory for entries in the background")
	}
	full := memoryOf(t, k)
	for _, name := range []string{bpf.MonitorMapPrefixRtts, bpf.MonitorMapPrefixTraffic} {
		require.EqualValues(t, prefixes, full[name].Entries)
		require.InEpsilon(t, full[name].Now, empty[name].Max, 0.02, name)
	}
	traffic := full[bpf.MonitorMapPrefixTraffic]
	cpus, err := ebpf.PossibleCPU()
	require.NoError(t, err)
	entry := traffic.Max - prefixes*uint64(unsafe.Sizeof(bpf.MonitorTrafficEntry{}))*uint64(cpus)
	require.Equal(t, entry, traffic.Max-traffic.EachCPU*uint64(cpus), "the rest is the same on all machines")
	require.NotZero(t, full[bpf.MonitorMapCounters].EachCPU)
	require.Zero(t, full[bpf.MonitorMapPrefixRtts].EachCPU, "CPUs share them")
	flows := full[bpf.MonitorMapFlows]
	require.Equal(t, flows.Now, flows.Max, "has its memory from the start")
}
