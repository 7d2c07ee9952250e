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

// growing is an array in extents that follow each other. It never shrinks.
type growing struct {
	*extents
	n uint32 // extents that there are
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

// made returns how many elements there are.
func (g *growing) made() uint32 { return g.n * g.inner.MaxEntries }

// grow makes elements until there are n.
func (g *growing) grow(n uint32) error {
	var indices []uint32
	for i := g.n; i*g.inner.MaxEntries < n; i++ {
		indices = append(indices, i)
	}
	if err := g.lend(indices...); err != nil {
		return fmt.Errorf("enlarge map %s: %w", g.outer, err)
	}
	g.n += uint32(len(indices))
	return nil
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

// keepGrowing reserves addresses for the elements of type T, and adds the array to a list of arrays whose elements have
// one index. elements become all elements that there may be.
func keepGrowing[T any](outer *ebpf.Map, list *[]*growing, elements *[]T) error {
	x, err := newExtents[T](outer, extentLen(uint32(unsafe.Sizeof(*new(T)))))
	if err != nil {
		return err
	}
	*elements = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x.memory))), len(x.arrays)*int(x.inner.MaxEntries))
	*list = append(*list, &growing{extents: x})
	return nil
}
