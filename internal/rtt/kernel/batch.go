package kernel

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/rtt/bpf"
)

// batches reads a table of aggregates many entries at a time: one system call for each would take most of the time.
type batches[V any] struct {
	table  *ebpf.Map
	values int // of an entry: one, or one for each CPU
	size   int // entries at a time
}

// batchBytes is about what the values of one batch may take.
const batchBytes = 256 << 10

func newBatches[V any](table *ebpf.Map, values int) *batches[V] {
	return &batches[V]{table, values, max(16, batchBytes/(int(table.ValueSize())*values))}
}

// each calls fn with the values of each entry, which are fn's until it returns.
func (b *batches[V]) each(fn func(key bpf.MonitorPrefixKey, values []V)) error {
	var cursor ebpf.MapBatchCursor
	keys, values := b.room()
	for {
		n, err := b.table.BatchLookup(&cursor, keys, values, nil)
		if errors.Is(err, unix.ENOSPC) { // the entries of a bucket come together, and the hash is random
			b.size *= 2
			keys, values = b.room()
			continue
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i, key := range keys[:n] {
			fn(key, values[i*b.values:][:b.values])
		}
		if err != nil {
			return nil // the end
		}
	}
}

func (b *batches[V]) room() ([]bpf.MonitorPrefixKey, []V) {
	return make([]bpf.MonitorPrefixKey, b.size), make([]V, b.size*b.values)
}
