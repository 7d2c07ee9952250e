package kernel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/rtt/report"
)

// Memory returns the memory of the tables, the largest first. The kernel tells how much a table has from the start. How
// much it may get is computed, for the CPUs that this machine may have.
func (k *Programs) Memory() ([]report.TableMemory, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	var all []report.TableMemory
	for name, m := range k.Maps {
		info, err := m.Info()
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		now, _ := info.Memlock()
		t := report.TableMemory{Name: name, Entries: info.MaxEntries, Now: now, Max: now, EachCPU: eachCPU(info)}
		if info.Flags&unix.BPF_F_NO_PREALLOC != 0 {
			t.Max += uint64(info.MaxEntries) * entryMemory(info, cpus)
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b report.TableMemory) int {
		return cmp.Or(cmp.Compare(b.Max, a.Max), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// eachCPU returns how many bytes the values of a table take for each CPU.
func eachCPU(info *ebpf.MapInfo) uint64 {
	switch info.Type {
	case ebpf.PerCPUHash, ebpf.PerCPUArray:
		return uint64(info.MaxEntries) * round8(info.ValueSize)
	}
	return 0
}

func round8(n uint32) uint64 { return (uint64(n) + 7) &^ 7 }

// entryMemory returns how many bytes the kernel allocates for an entry that a table gets later (kernel/bpf/hashtab.c
// and lpm_trie.c).
func entryMemory(info *ebpf.MapInfo, cpus int) uint64 {
	const (
		hashEntry = 48 // struct htab_elem
		trieNode  = 40 // struct lpm_trie_node
		pointer   = 8
		link      = 8 // that the allocator adds
	)
	key, value := round8(info.KeySize), round8(info.ValueSize)
	switch info.Type {
	case ebpf.PerCPUHash:
		return hashEntry + key + pointer + link + value*uint64(cpus) + link
	case ebpf.LPMTrie:
		return 2 * (trieNode + key + value) // each prefix may need a node that only branches
	default:
		return hashEntry + key + value + link
	}
}
