package fastpath

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// growing is an array in memory that the programs share, whose elements are made in extents when they are first needed
// (GROWING in bpf/shared/maps.h). It never shrinks. In this process the extents lie one behind the other, at addresses
// that are reserved for all elements that there may be, so pointers to elements stay valid. Who touches an element that
// was not made crashes.
type growing struct {
	outer  *ebpf.Map
	inner  *ebpf.MapSpec
	memory []byte      // reserved, and mapped as far as there are extents
	arrays []*ebpf.Map // the extents; the descriptors stay open, so that tools that add up a process's maps find them
}

// extentShift is the binary logarithm of how many elements an extent has, unless they are smaller than 64 bytes.
var extentShift = uint32(bits.TrailingZeros32(extentLen(64)))

// extentLen returns how many elements of a size an extent has: 64, or more so that it consists of whole pages.
func extentLen(size uint32) uint32 {
	return uint32(unix.Getpagesize()) >> min(bits.TrailingZeros32(size), 6)
}

// setGrowing prepares a map for n elements.
func setGrowing(spec *ebpf.MapSpec, n uint32) {
	spec.InnerMap.MaxEntries = extentLen(spec.InnerMap.ValueSize)
	spec.MaxEntries = (n + spec.InnerMap.MaxEntries - 1) / spec.InnerMap.MaxEntries
}

// newGrowing reserves addresses for the elements of type T. The slice has all elements that there may be.
func newGrowing[T any](outer *ebpf.Map) (*growing, []T, error) {
	size := int(unsafe.Sizeof(*new(T)))
	if size%8 != 0 {
		return nil, nil, fmt.Errorf("fast path: elements of %s have %d bytes: must be a multiple of 8", outer, size)
	}
	inner := &ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: extentLen(uint32(size)),
		Flags: unix.BPF_F_MMAPABLE,
	}
	n := int(outer.MaxEntries()) * int(inner.MaxEntries)
	memory, err := unix.Mmap(-1, 0, n*size, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("fast path: reserve addresses for map %s: %w", outer, err)
	}
	elements := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)
	return &growing{outer: outer, inner: inner, memory: memory}, elements, nil
}

// made returns how many elements there are.
func (g *growing) made() uint32 { return uint32(len(g.arrays)) * g.inner.MaxEntries }

// grow makes elements until there are n. The kernel waits some 10 ms; before Linux 6.8, for each extent.
func (g *growing) grow(n uint32) error {
	arrays, err := g.mapExtents(n)
	if err == nil && len(arrays) > 0 {
		err = g.share(arrays)
	}
	if err != nil { // the next attempt maps other arrays there
		for _, array := range arrays {
			err = errors.Join(err, array.Close())
		}
		return fmt.Errorf("enlarge map %s: %w", g.outer, err)
	}
	g.arrays = append(g.arrays, arrays...)
	return nil
}

// mapExtents makes the extents that there have to be for n elements, and maps them to their places.
func (g *growing) mapExtents(n uint32) (arrays []*ebpf.Map, err error) {
	for uint32(len(g.arrays)+len(arrays))*g.inner.MaxEntries < n {
		array, err := g.mapExtent(len(g.arrays) + len(arrays))
		if err != nil {
			return arrays, err
		}
		arrays = append(arrays, array)
	}
	return arrays, nil
}

// share lets the programs find further extents.
func (g *growing) share(arrays []*ebpf.Map) error {
	at, descriptors := make([]uint32, len(arrays)), make([]uint32, len(arrays))
	for i, array := range arrays {
		at[i], descriptors[i] = uint32(len(g.arrays)+i), uint32(array.FD())
	}
	_, err := g.outer.BatchUpdate(at, descriptors, nil)
	return err
}

// mapExtent makes an extent, and maps it to its place.
func (g *growing) mapExtent(at int) (*ebpf.Map, error) {
	array, err := ebpf.NewMap(g.inner)
	if err != nil {
		return nil, err
	}
	length := len(g.memory) / int(g.outer.MaxEntries())
	_, err = unix.MmapPtr(array.FD(), 0, unsafe.Pointer(&g.memory[at*length]), uintptr(length),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return nil, errors.Join(err, array.Close())
	}
	return array, nil
}

func (g *growing) close() error {
	errs := []error{unix.Munmap(g.memory)}
	for _, array := range g.arrays {
		errs = append(errs, array.Close())
	}
	return errors.Join(errs...)
}

// growAll makes elements of several arrays until all have n. They share the time that the kernel waits.
func growAll(arrays []*growing, n uint32) error {
	if madeOfAll(arrays) >= n {
		return nil
	}
	errs := make([]error, len(arrays))
	var all sync.WaitGroup
	for i, g := range arrays {
		all.Go(func() { errs[i] = g.grow(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// madeOfAll returns how many elements all of several arrays have.
func madeOfAll(arrays []*growing) uint32 {
	n := uint32(math.MaxUint32)
	for _, g := range arrays {
		n = min(n, g.made())
	}
	return n
}

// keepGrowing adds an array to a list of arrays whose elements have one index.
func keepGrowing[T any](m *ebpf.Map, list *[]*growing, elements *[]T) error {
	g, all, err := newGrowing[T](m)
	if err != nil {
		return err
	}
	*elements, *list = all, append(*list, g)
	return nil
}
