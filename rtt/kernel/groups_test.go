//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/rtt/bpf"
	"sluice/rtt/groups"
	"sluice/rtt/internal/wire"
	"sluice/rtt/report"
)

// requireKernel skips a test that needs to load BPF programs and may not.
var requireKernel = thorough.Root

// newTestGroups returns an empty table in the kernel.
func newTestGroups(t *testing.T, limit int) *groupTable {
	t.Helper()
	requireKernel(t)
	spec, err := bpf.LoadMonitor()
	require.NoError(t, err)
	spec.Maps[bpf.MonitorMapGroups].MaxEntries = GroupPrefixes
	m, err := ebpf.NewMap(spec.Maps[bpf.MonitorMapGroups])
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return newGroupTable(m, func() error { return nil }, limit)
}

// of returns the name of an address's group.
func (g *groupTable) of(t *testing.T, addr string) string {
	t.Helper()
	a := netip.MustParseAddr(addr)
	var number uint32
	if err := g.prefixes.Lookup(groupKey(netip.PrefixFrom(a, a.BitLen())), &number); err != nil {
		require.ErrorIs(t, err, ebpf.ErrKeyNotExist)
	}
	return g.names[number]
}

func table(entries ...string) groups.Table {
	t := make(groups.Table)
	for i := 0; i < len(entries); i += 2 {
		t[netip.MustParsePrefix(entries[i])] = entries[i+1]
	}
	return t
}

func TestGroups(t *testing.T) {
	g := newTestGroups(t, 10)
	require.NoError(t, g.load(table("192.0.2.0/24", "blue", "192.0.2.128/25", "red", "::/0", "six")))
	for addr, want := range map[string]string{
		"192.0.2.127": "blue", "192.0.2.128": "red", "198.51.100.1": groups.Other, "2001:db8::1": "six",
	} {
		require.Equal(t, want, g.of(t, addr), addr)
	}

	require.NoError(t, g.load(table("192.0.2.0/24", "red", "0.0.0.0/0", "four", "2001:db8::/32", "green")))
	for addr, want := range map[string]string{
		"192.0.2.127": "red", "192.0.2.128": "red", "198.51.100.1": "four", "2001:db8::1": "green",
		"2001:db9::1": groups.Other,
	} {
		require.Equal(t, want, g.of(t, addr), addr)
	}
	require.Equal(t, []string{groups.Other, "blue", "red", "six", "four", "green"}, g.names, "numbers stay")

	require.NoError(t, g.load(table("192.0.2.0/24", groups.Other)))
	require.Equal(t, groups.Other, g.of(t, "198.51.100.1"))
	require.Equal(t, groups.Other, g.of(t, "192.0.2.1"))
}

// end ends a period, and returns the names of the groups that were forgotten.
func (g *groupTable) end(t *testing.T) (names []string) {
	t.Helper()
	require.NoError(t, g.endPeriod(func(numbers map[uint32]bool) error {
		for number := range numbers {
			names = append(names, g.names[number])
		}
		return nil
	}))
	slices.Sort(names)
	return names
}

func TestGroupsHaveALimit(t *testing.T) {
	g := newTestGroups(t, 2)
	require.EqualError(t, g.load(table("192.0.2.0/24", "a", "192.0.3.0/24", "b", "192.0.4.0/24", "c")),
		"3 groups: there is room for 2, which --max-prefixes raises")
	require.NoError(t, g.load(table("192.0.2.0/24", "a", "192.0.3.0/24", "b", "192.0.4.0/24", groups.Other)))
	require.NoError(t, g.load(table("192.0.2.0/24", "c", "192.0.3.0/24", "d")))
	require.EqualError(t, g.load(table("192.0.2.0/24", "e")),
		"5 groups with those of earlier files: there is room for 4: try again when two intervals have ended")
	require.Equal(t, "c", g.of(t, "192.0.2.1"), "nothing has changed")
	require.Empty(t, g.end(t))
	require.Equal(t, []string{"a", "b"}, g.end(t))
	require.NoError(t, g.load(table("192.0.2.0/24", "e")))
	require.Equal(t, "e", g.of(t, "192.0.2.1"))
}

// A number stands for its name until the periods are read in which something may have been counted for it.
func TestNumbersOfGroupsAreFreed(t *testing.T) {
	g := newTestGroups(t, 10)
	require.NoError(t, g.load(table("192.0.2.0/24", "blue", "192.0.3.0/24", "red")))
	for range 5 {
		require.Empty(t, g.end(t), "groups of the table stay")
	}
	require.NoError(t, g.load(table("192.0.3.0/24", "red")))
	require.Empty(t, g.end(t))
	require.Equal(t, "blue", g.name(1), "the period in which it was retired may be the next one")
	require.NoError(t, g.load(table("192.0.2.0/24", "blue")))
	require.Empty(t, g.end(t), "it is back")
	require.Equal(t, []string{"red"}, g.end(t))
	require.Equal(t, "blue", g.of(t, "192.0.2.1"))
	require.NoError(t, g.load(table("192.0.2.0/24", "green", "192.0.3.0/24", "red")))
	require.Equal(t, []string{groups.Other, "blue", "green", "red"}, g.names, "the free number is used again")
	require.Empty(t, g.end(t))
	require.Equal(t, []string{"blue"}, g.end(t))
}

// A group that cannot be removed keeps its number.
func TestNumbersOfGroupsStayIfAggregatesDo(t *testing.T) {
	g := newTestGroups(t, 10)
	require.NoError(t, g.load(table("192.0.2.0/24", "blue")))
	require.NoError(t, g.load(table("192.0.2.0/24", "red")))
	require.Empty(t, g.end(t))
	broken := errors.New("broken")
	require.ErrorIs(t, g.endPeriod(func(map[uint32]bool) error { return broken }), broken)
	require.Equal(t, "blue", g.name(1))
	require.Equal(t, []string{"blue"}, g.end(t))
}

// TestReloads has far more names than there is room for, one file after the other, with traffic of all of them. Packets
// count for the names that they had, and the kernel keeps no aggregates of names that are gone.
func TestReloads(t *testing.T) {
	requireKernel(t)
	for name, by := range map[string]report.Keys{"groups": {}, "pairs": {Pair: true}} {
		t.Run(name, func(t *testing.T) { reload(t, by) })
	}
}

func reload(t *testing.T, by report.Keys) {
	const limit, reloads = 4, 50
	settings := bpf.MonitorSettings{Tcp: 1, Aggregate: 1, Traffic: 1, Groups: 1, Replay: 1, Batch: 1}
	if by.Pair {
		settings.ByPair = 1
	}
	k, err := bpf.Load(settings, bpf.Limits{
		Flows: 16, Stamps: 16, Prefixes: 4 * limit, GroupPrefixes: GroupPrefixes, LocalAddresses: 1, RingBytes: 4096,
	}, bpf.MonitorProgEgress)
	require.NoError(t, err)
	t.Cleanup(k.Close)
	named := func(n int) groups.Table {
		return table("10.0.0.1/32", fmt.Sprintf("a%d", n), "10.0.0.2/32", fmt.Sprintf("b%d", n))
	}
	a, err := NewAggregator(k, AggregatorConfig{
		Aggregation: report.Aggregation{By: by}, Groups: named(0), Limit: limit, Kinds: []uint8{0},
	})
	require.NoError(t, err)
	frame := wire.Frame(wire.TCP{Flags: wire.ACK, Length: 10}.Between(
		netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2")))
	show := func() {
		require.NoError(t, k.SetClock(1, len(frame)))
		_, err := k.Programs[bpf.MonitorProgEgress].Run(&ebpf.RunOptions{Data: frame})
		require.NoError(t, err)
	}
	turn := func() (counted []string) {
		i, err := a.Turn(time.Now(), func() {})
		require.NoError(t, err)
		for n := range i.Prefixes {
			p := &i.Prefixes[n]
			counted = append(counted, fmt.Sprintf("%s %d", p.Group, p.Sent.Total().Plus(p.Received.Total()).Packets))
		}
		return counted
	}
	for n := range reloads {
		show() // of the names before
		require.NoError(t, a.Regroup(named(n+1)))
		show()
		show()
		require.ElementsMatch(t, []string{
			fmt.Sprintf("a%d 1", n), fmt.Sprintf("a%d 2", n+1), fmt.Sprintf("b%d 1", n), fmt.Sprintf("b%d 2", n+1),
		}, turn())
		require.Empty(t, turn())
	}
	require.Empty(t, turn())
	require.LessOrEqual(t, len(a.groups.names), 1+2*2)
	require.Len(t, a.active, 2, "the groups of the last table")
	var key bpf.MonitorPrefixKey
	var left int
	all := k.Maps[bpf.MonitorMapPrefixTraffic].Iterate()
	for all.Next(&key, new([]bpf.MonitorTrafficEntry)) {
		left++
	}
	require.NoError(t, all.Err())
	require.Equal(t, 3, left, "and what has no group")
}
