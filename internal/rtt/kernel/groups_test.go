//go:build linux

package kernel

import (
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/bpf"
	"sluice/internal/rtt/groups"
)

// requireKernel skips a test that may not load BPF programs.
func requireKernel(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
			t.Fatal("needs root, which SLUICE_REQUIRE_KERNEL demands")
		}
		t.Skip("needs root")
	}
}

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

func TestGroupsHaveALimit(t *testing.T) {
	g := newTestGroups(t, 2)
	require.NoError(t, g.load(table("192.0.2.0/24", "blue", "192.0.3.0/24", "red")))
	require.EqualError(t, g.load(table("192.0.2.0/24", "green")),
		"3 groups since the start: there is room for 2, which --max-prefixes raises")
	require.Equal(t, "blue", g.of(t, "192.0.2.1"), "nothing has changed")
}
