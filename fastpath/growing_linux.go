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

	"sluice/fastpath/bpf"
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

// extentLen is how many elements an extent has: so many that it consists of whole pages, as elements are multiples of 8
// bytes.
var (
	extentLen   = max(uint32(unix.Getpagesize()/8), uint32(bpf.IngressCapacityEXTENT_LEN))
	extentShift = uint32(bits.TrailingZeros32(extentLen))
)

// setGrowing prepares a map for n elements.
func setGrowing(spec *ebpf.MapSpec, n uint32) {
	spec.MaxEntries = (n + extentLen - 1) / extentLen
	spec.InnerMap.MaxEntries = extentLen
}

// newGrowing reserves addresses for the elements of type T. The slice has all elements that there may be.
func newGrowing[T any](outer *ebpf.Map) (*growing, []T, error) {
	size := int(unsafe.Sizeof(*new(T)))
	if size%8 != 0 {
		return nil, nil, fmt.Errorf("fast path: elements of %s have %d bytes: must be a multiple of 8", outer, size)
	}
	n := int(outer.MaxEntries()) * int(extentLen)
	memory, err := unix.Mmap(-1, 0, n*size, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("fast path: reserve addresses for map %s: %w", outer, err)
	}
	inner := &ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: extentLen, Flags: unix.BPF_F_MMAPABLE,
	}
	elements := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)
	return &growing{outer: outer, inner: inner, memory: memory}, elements, nil
}

// made returns how many elements there are.
func (g *growing) made() uint32 { return uint32(len(g.arrays)) * extentLen }

// grow makes elements until there are n. The kernel waits some 10 ms for each extent.
func (g *growing) grow(n uint32) error {
	for g.made() < n {
		if err := g.addExtent(); err != nil {
			return fmt.Errorf("enlarge map %s: %w", g.outer, err)
		}
	}
	return nil
}

func (g *growing) addExtent() error {
	array, err := ebpf.NewMap(g.inner)
	if err != nil {
		return err
	}
	at, length := len(g.arrays), len(g.memory)/int(g.outer.MaxEntries())
	_, err = unix.MmapPtr(array.FD(), 0, unsafe.Pointer(&g.memory[at*length]), uintptr(length),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err == nil {
		err = g.outer.Put(uint32(at), uint32(array.FD()))
	}
	if err != nil { // the next attempt maps another array there
		return errors.Join(err, array.Close())
	}
	g.arrays = append(g.arrays, array)
	return nil
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

// keepGrowing keeps an array until k is closed, in a list of those whose elements have one index.
func keepGrowing[T any](k *kernel, m *ebpf.Map, list *[]*growing, elements *[]T) error {
	g, all, err := newGrowing[T](m)
	if err != nil {
		return err
	}
	*elements, *list = all, append(*list, g)
	return nil
}
