package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"sluice/internal/rtt/bpf"
	"sluice/internal/rtt/groups"
)

// GroupPrefixes is the room for prefixes of groups: all of a table, those of the table before, and all IPv4 addresses.
const GroupPrefixes = 2*groups.MaxPrefixes + 1

// groupTable is the groups in the kernel. A number always stands for the same name.
type groupTable struct {
	prefixes *ebpf.Map
	changed  func() error // makes the programs look again
	max      int          // groups besides groups.Other

	mu      sync.Mutex
	names   []string // by number
	numbers map[string]uint32
	loaded  map[netip.Prefix]bool // are in the kernel
}

// allIPv4 belongs to no group unless a table says so: otherwise, ::/0 would have IPv4 addresses, too.
var allIPv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

func newGroupTable(prefixes *ebpf.Map, changed func() error, limit int) *groupTable {
	return &groupTable{
		prefixes: prefixes, changed: changed, max: limit,
		names: []string{groups.Other}, numbers: map[string]uint32{groups.Other: 0}, loaded: make(map[netip.Prefix]bool),
	}
}

// load replaces the groups. Meanwhile some prefixes have their new group, and others their old one.
func (g *groupTable) load(t groups.Table) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.numberLocked(t); err != nil {
		return err
	}
	return errors.Join(g.putLocked(t), g.changed())
}

// putLocked brings the prefixes of a table into the kernel, and removes others.
func (g *groupTable) putLocked(t groups.Table) error {
	for _, prefix := range byLength(t) {
		if err := g.prefixes.Put(groupKey(prefix), g.numbers[t[prefix]]); err != nil {
			return fmt.Errorf("add %v to group %s: %w", prefix, t[prefix], err)
		}
		g.loaded[prefix] = true
	}
	for prefix := range g.loaded {
		if _, ok := t[prefix]; ok {
			continue
		}
		if err := g.prefixes.Delete(groupKey(prefix)); err != nil {
			return fmt.Errorf("remove %v from its group: %w", prefix, err)
		}
		delete(g.loaded, prefix)
	}
	if _, ok := t[allIPv4]; ok {
		return nil
	}
	return g.prefixes.Put(groupKey(allIPv4), uint32(0))
}

// byLength returns the prefixes of a table, the longest first, so that no address is counted for a shorter prefix while
// its own is still to come.
func byLength(t groups.Table) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(t))
	for p := range t {
		prefixes = append(prefixes, p)
	}
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int { return cmp.Compare(b.Bits(), a.Bits()) })
	return prefixes
}

// numberLocked gives new names a number.
func (g *groupTable) numberLocked(t groups.Table) error {
	var fresh []string
	for name := range t.Names() {
		if _, ok := g.numbers[name]; !ok {
			fresh = append(fresh, name)
		}
	}
	if n := len(g.names) - 1 + len(fresh); n > g.max {
		return fmt.Errorf("%d groups since the start: there is room for %d, which --max-prefixes raises", n, g.max)
	}
	slices.Sort(fresh)
	for _, name := range fresh {
		g.numbers[name] = uint32(len(g.names))
		g.names = append(g.names, name)
	}
	return nil
}

// name returns the name of the group with a number.
func (g *groupTable) name(number uint32) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[number]
}

// groupKey returns the key of a prefix in the kernel's table, where IPv4 addresses are mapped ones.
func groupKey(p netip.Prefix) bpf.MonitorGroupLookup {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	key := bpf.MonitorGroupLookup{Bits: uint32(bits)}
	for i, bytes := 0, p.Addr().As16(); i < len(key.Address); i++ {
		key.Address[i] = binary.NativeEndian.Uint32(bytes[4*i:])
	}
	return key
}
