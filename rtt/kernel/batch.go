package kernel

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/rtt/bpf"
)

// batches reads a table of aggregates many entries at a time: one system call for each would take most of the time.
type batches[V any] struct {
	table  *ebpf.Map
	values int // of an entry: one, or one for each CPU
	size   int // entries at a time

	// Room for them, which is made once: otherwise each period would need a garbage collection.
	roomForKeys   []bpf.MonitorPrefixKey
	roomForValues []V
}

// batchBytes is about how many bytes the values of one batch may take.
const batchBytes = 256 << 10

func newBatches[V any](table *ebpf.Map, values int) *batches[V] {
	b := &batches[V]{table: table, values: values}
	b.grow(max(16, batchBytes/(int(table.ValueSize())*values)))
	return b
}

// each calls fn with the values of each entry, which are fn's until it returns.
func (b *batches[V]) each(fn func(key bpf.MonitorPrefixKey, values []V)) error {
	var cursor ebpf.MapBatchCursor
	for {
		keys, values := b.roomForKeys, b.roomForValues
		n, err := b.table.BatchLookup(&cursor, keys, values, nil)
		if errors.Is(err, unix.ENOSPC) { // the entries of a bucket come together, and the hash is random
			b.grow(2 * b.size)
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

func (b *batches[V]) grow(size int) {
	b.size = size
	b.roomForKeys = make([]bpf.MonitorPrefixKey, size)
	b.roomForValues = make([]V, size*b.values)
}
