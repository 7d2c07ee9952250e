package fastpath

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// lent is memory that connections have only while they take part, so that memory follows the load. It is an array of
// maps: one array for each connection, by index, mapped into this process. Its methods need no lock: an index belongs
// to one goroutine at a time.
type lent[T any] struct {
	outer *ebpf.Map
	inner *ebpf.MapSpec
	parts []part[T]              // by index
	heap  func(index uint32) []T // in simulations: instead of outer
}

// part is the memory of one connection, if it has any. The array's descriptor stays open, so that tools that add up the
// maps of a process find it.
type part[T any] struct {
	array    *ebpf.Map
	mapped   []byte
	elements []T
}

func newLent[T any](outer *ebpf.Map, inner *ebpf.MapSpec) *lent[T] {
	return &lent[T]{outer: outer, inner: inner, parts: make([]part[T], outer.MaxEntries())}
}

// of returns the memory of an index, nil if it has none.
func (l *lent[T]) of(index uint32) []T { return l.parts[index].elements }

// lend gives indices memory, all of them or none.
//
// An update of an array of maps returns when no program can see the old element: after an RCU grace period, some 10 ms.
// Since Linux 6.8 the kernel waits once for a batch; older kernels wait for each element.
func (l *lent[T]) lend(indices ...uint32) error {
	err := l.tryLend(indices)
	if err != nil {
		err = errors.Join(err, l.takeBack(indices...))
	}
	return err
}

func (l *lent[T]) tryLend(indices []uint32) error {
	arrays := make([]uint32, 0, len(indices)) // descriptors
	for _, i := range indices {
		p := &l.parts[i]
		if l.heap != nil {
			p.elements = l.heap(i)
			continue
		}
		var err error
		if p.array, err = ebpf.NewMap(l.inner); err != nil {
			return err
		}
		if p.elements, p.mapped, err = mapArray[T](p.array); err != nil {
			return err
		}
		arrays = append(arrays, uint32(p.array.FD()))
	}
	if l.heap != nil {
		return nil
	}
	_, err := l.outer.BatchUpdate(indices, arrays, nil)
	return err
}

// takeBack frees the memory of indices, each after a grace period. The caller makes sure that no goroutine uses it any
// more.
func (l *lent[T]) takeBack(indices ...uint32) (err error) {
	for _, i := range indices {
		if l.heap != nil {
			l.parts[i].elements = nil
			continue
		}
		if e := l.outer.Delete(i); e != nil && !errors.Is(e, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, e)
			continue
		}
		err = errors.Join(err, l.parts[i].close())
	}
	return err
}

func (p *part[T]) close() error {
	var errs []error
	if p.mapped != nil {
		clear(p.mapped) // it may hold secrets
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
