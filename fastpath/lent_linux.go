package fastpath

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// lent is memory that connections have only while they take part, so that memory follows the load: an array of maps has an array for each of
// them, by their index, which is mapped here. Its methods need no lock: an index belongs to one goroutine at a time.
type lent[T any] struct {
	outer *ebpf.Map
	inner *ebpf.MapSpec
	parts []part[T] // by index
}

// part is the memory of one connection, if it has any. The array's descriptor stays open so that those who add up a process's maps find it.
type part[T any] struct {
	array    *ebpf.Map
	mapped   []byte
	elements []T
}

// lender is a lent of any type.
type lender interface {
	lend(indices []uint32) error
	takeBack(index uint32) error
	close() error
}

func newLent[T any](outer *ebpf.Map, inner *ebpf.MapSpec) *lent[T] {
	return &lent[T]{outer: outer, inner: inner, parts: make([]part[T], outer.MaxEntries())}
}

// of returns the memory of an index, nil if it has none.
func (l *lent[T]) of(index uint32) []T { return l.parts[index].elements }

// lend gives indices memory. The kernel waits for an RCU grace period then, some 10 ms: one for all, before Linux 6.8 one for each.
func (l *lent[T]) lend(indices []uint32) error {
	arrays := make([]uint32, 0, len(indices)) // descriptors
	for _, i := range indices {
		p := &l.parts[i]
		var err error
		if p.array, err = ebpf.NewMap(l.inner); err != nil {
			return err
		}
		if p.elements, p.mapped, err = mapArray[T](p.array); err != nil {
			return err
		}
		arrays = append(arrays, uint32(p.array.FD()))
	}
	_, err := l.outer.BatchUpdate(indices, arrays, nil)
	return err
}

// takeBack frees the memory of an index, if it has any. The kernel waits for a grace period before it returns from Delete.
func (l *lent[T]) takeBack(index uint32) error {
	if err := l.outer.Delete(index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return l.parts[index].close()
}

func (p *part[T]) close() error {
	var errs []error
	if p.mapped != nil {
		clear(p.mapped) // it may be secret
		errs = append(errs, unix.Munmap(p.mapped))
	}
	errs = append(errs, p.array.Close())
	*p = part[T]{}
	return errors.Join(errs...)
}

// close frees all memory.
func (l *lent[T]) close() error {
	var errs []error
	for i := range l.parts {
		errs = append(errs, l.parts[i].close())
	}
	return errors.Join(errs...)
}
