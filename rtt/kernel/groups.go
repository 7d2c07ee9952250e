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

	"sluice/rtt/bpf"
	"sluice/rtt/groups"
)

// GroupPrefixes is the room for prefixes of groups: all of a table, all of the table before, and all IPv4 addresses.
const GroupPrefixes = 2*groups.MaxPrefixes + 1

// groupTable is the groups in the kernel. A number stands for one name, until no aggregate can have it any more.
type groupTable struct {
	prefixes *ebpf.Map
	changed  func() error // makes the programs look again
	max      int          // groups besides groups.Other

	mu      sync.Mutex
	names   []string // by number; "" if the number is free
	numbers map[string]uint32
	free    []uint32
	retired map[uint32]int        // numbers of names that the table has not, and how many periods ended since
	loaded  map[netip.Prefix]bool // are in the kernel
}

// allIPv4 belongs to no group unless a table says so: otherwise, ::/0 would have IPv4 addresses, too.
var allIPv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

func newGroupTable(prefixes *ebpf.Map, changed func() error, limit int) *groupTable {
	return &groupTable{
		prefixes: prefixes, changed: changed, max: limit,
		names: []string{groups.Other}, numbers: map[string]uint32{groups.Other: 0},
		retired: make(map[uint32]int), loaded: make(map[netip.Prefix]bool),
	}
}

// load replaces the groups. Meanwhile some prefixes have their new group, and others their old one.
func (g *groupTable) load(t groups.Table) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := t.Names()
	if err := g.numberLocked(names); err != nil {
		return err
	}
	if err := errors.Join(g.putLocked(t), g.changed()); err != nil {
		return err // prefixes of any group may be left
	}
	g.retireLocked(names)
	return nil
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

// numberLocked gives new names a number. Groups of earlier tables have theirs until their last periods are read: there
// is room for as many of them as a table may have.
func (g *groupTable) numberLocked(names map[string]bool) error {
	var fresh []string
	n := len(names)
	if names[groups.Other] {
		n-- // it always has its number
	}
	if n > g.max {
		return fmt.Errorf("%d groups: there is room for %d, which --max-prefixes raises", n, g.max)
	}
	for name := range names {
		if _, ok := g.numbers[name]; !ok {
			fresh = append(fresh, name)
		}
	}
	if n = len(g.numbers) - 1 + len(fresh); n > 2*g.max {
		return fmt.Errorf("%d groups with those of earlier files: there is room for %d: "+
			"try again when two intervals have ended", n, 2*g.max)
	}
	slices.Sort(fresh)
	for _, name := range fresh {
		g.addLocked(name)
	}
	for name := range names {
		delete(g.retired, g.numbers[name])
	}
	return nil
}

// addLocked gives a name a number.
func (g *groupTable) addLocked(name string) {
	number := uint32(len(g.names))
	if last := len(g.free) - 1; last >= 0 {
		number, g.free = g.free[last], g.free[:last]
		g.names[number] = name
	} else {
		g.names = append(g.names, name)
	}
	g.numbers[name] = number
}

// retireLocked notes which groups are not in the table, which has these names. From now on, nothing is counted for
// them.
func (g *groupTable) retireLocked(names map[string]bool) {
	for name, number := range g.numbers {
		if _, known := g.retired[number]; known || names[name] || number == 0 {
			continue
		}
		g.retired[number] = 0
	}
}

// retiredPeriods is how many periods are read before a retired group is forgotten: the period in which it was retired,
// and the next one, if a period ended at that time.
const retiredPeriods = 2

// endPeriod notes that a period was read. If that was the last one of some groups, it calls remove with their numbers,
// which has to remove their aggregates, and frees the numbers.
func (g *groupTable) endPeriod(remove func(map[uint32]bool) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ended := make(map[uint32]bool)
	for number := range g.retired {
		if g.retired[number]++; g.retired[number] >= retiredPeriods {
			ended[number] = true
		}
	}
	if len(ended) == 0 {
		return nil
	}
	if err := remove(ended); err != nil {
		return err
	}
	for number := range ended {
		g.freeLocked(number)
	}
	return nil
}

func (g *groupTable) freeLocked(number uint32) {
	delete(g.retired, number)
	delete(g.numbers, g.names[number])
	g.names[number] = ""
	g.free = append(g.free, number)
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
