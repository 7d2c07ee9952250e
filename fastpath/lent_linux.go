package fastpath

import (
	"unsafe"

	"github.com/cilium/ebpf"
)

// lent is memory that connections have only while they take part, so that memory follows the load: an extent for each
// connection, by index.
type lent[T any] struct {
	*extents
	heap func(index uint32) []T // in simulations: instead of extents
}

func newLent[T any](outer *ebpf.Map, n uint32) (*lent[T], error) {
	x, err := newExtents[T](outer, n)
	return &lent[T]{extents: x}, err
}

// of returns the memory of an index, nil if it has none.
func (l *lent[T]) of(index uint32) []T {
	switch {
	case l.heap != nil:
		return l.heap(index)
	case l.arrays[index] == nil:
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(l.at(index)))), l.inner.MaxEntries)
}
