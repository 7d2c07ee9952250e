package fastpath

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// extents is memory that the programs share, which is made in extents when it is needed: an array of maps (GROWING and
// LENT in bpf/shared/maps.h). In this process the extents lie at addresses that are reserved for all that there may be,
// so pointers to elements stay valid. Who touches an extent that was not made crashes. The methods need no lock: an
// index belongs to one goroutine at a time. In simulations there are none: the methods of nil do nothing.
type extents struct {
	outer  *ebpf.Map
	inner  *ebpf.MapSpec
	memory []byte      // reserved, and mapped where there are extents
	length int         // of an extent in bytes: whole pages
	arrays []*ebpf.Map // by index; the descriptors stay open, so that tools that add up a process's maps find them
}

// newExtents reserves addresses for extents with n elements of type T each.
func newExtents[T any](outer *ebpf.Map, n uint32) (*extents, error) {
	size, page := uint32(unsafe.Sizeof(*new(T))), unix.Getpagesize()
	if size%8 != 0 {
		return nil, fmt.Errorf("fast path: elements of %s have %d bytes: must be a multiple of 8", outer, size)
	}
	x := &extents{
		outer: outer, length: (int(n*size) + page - 1) / page * page, arrays: make([]*ebpf.Map, outer.MaxEntries()),
		inner: &ebpf.MapSpec{
			Type: ebpf.Array, KeySize: 4, ValueSize: size, MaxEntries: n, Flags: unix.BPF_F_MMAPABLE,
		},
	}
	var err error
	x.memory, err = unix.Mmap(-1, 0, len(x.arrays)*x.length, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("fast path: reserve addresses for map %s: %w", outer, err)
	}
	return x, nil
}

// at returns the memory of an extent.
func (x *extents) at(index uint32) []byte { return x.memory[int(index)*x.length:][:x.length] }

// lend makes extents, all of them or none.
//
// An update of an array of maps returns when no program can see the old element: after an RCU grace period, some 10 ms.
// Since Linux 6.8 the kernel waits once for a batch; older kernels wait for each element.
func (x *extents) lend(indices ...uint32) error {
	if x == nil || len(indices) == 0 {
		return nil
	}
	err := x.tryLend(indices)
	if err != nil {
		err = errors.Join(err, x.takeBack(indices...))
	}
	return err
}

func (x *extents) tryLend(indices []uint32) error {
	descriptors := make([]uint32, len(indices))
	for i, index := range indices {
		array, err := ebpf.NewMap(x.inner)
		if err != nil {
			return err
		}
		if err := x.place(index, array.FD(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return errors.Join(err, array.Close())
		}
		x.arrays[index], descriptors[i] = array, uint32(array.FD())
	}
	_, err := x.outer.BatchUpdate(indices, descriptors, nil)
	return err
}

// place maps something to the addresses of an extent.
func (x *extents) place(index uint32, fd, prot, flags int) error {
	at := unsafe.Pointer(unsafe.SliceData(x.at(index)))
	_, err := unix.MmapPtr(fd, 0, at, uintptr(x.length), prot, flags|unix.MAP_FIXED)
	return err
}

// takeBack frees extents, each after a grace period. The caller makes sure that no goroutine uses them any more.
func (x *extents) takeBack(indices ...uint32) (err error) {
	if x == nil {
		return nil
	}
	for _, index := range indices {
		if e := x.outer.Delete(index); e != nil && !errors.Is(e, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, e)
			continue
		}
		err = errors.Join(err, x.free(index))
	}
	return err
}

// free frees an extent, if there is one. The addresses stay reserved.
func (x *extents) free(index uint32) error {
	array := x.arrays[index]
	if array == nil {
		return nil
	}
	x.arrays[index] = nil
	clear(x.at(index)) // it may hold secrets
	err := x.place(index, -1, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	return errors.Join(err, array.Close())
}

// close frees everything.
func (x *extents) close() error {
	if x == nil {
		return nil
	}
	var errs []error
	for index := range x.arrays {
		errs = append(errs, x.free(uint32(index)))
	}
	return errors.Join(append(errs, unix.Munmap(x.memory))...)
}
