package fastpath

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
)

// versioned is a map whose values programs read while they are replaced: each version is an element of its own, see
// bpf/shared/versions.h.
type versioned[T any] struct {
	elements Table
	current  []uint64 // the version by index, shared with the programs; 0: none
	await    func()   // waits until no program uses a version that was replaced before

	mu    sync.Mutex        // guards all below, and changes of current
	last  uint64            // version that was given
	parts map[uint32]uint32 // of current values, by index
	old   []bpf.VersionKey
}

func newVersioned[T any](elements Table, await func()) *versioned[T] {
	return &versioned[T]{elements: elements, await: await, parts: make(map[uint32]uint32)}
}

// put replaces the value with an index, which has one part or more. If there is no room, the value stays.
func (v *versioned[T]) put(index uint32, parts ...T) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	for i, part := range parts {
		key := bpf.VersionKey{Version: v.last, Index: index, Part: uint32(i)}
		if err := v.insertLocked(key, part); err != nil {
			return errors.Join(err, v.free(partsOf(index, v.last, uint32(i)))) // no program has seen them
		}
	}
	v.changeLocked(index, v.last, uint32(len(parts)))
	return nil
}

// insertLocked inserts an element.
func (v *versioned[T]) insertLocked(key bpf.VersionKey, part T) error {
	err := v.elements.Update(key, part, ebpf.UpdateAny)
	if errors.Is(err, unix.E2BIG) && len(v.old) > 0 { // too many have been replaced since the reclaimer last came
		old := v.old
		v.old = nil
		v.await()
		err = errors.Join(v.free(old), v.elements.Update(key, part, ebpf.UpdateAny))
	}
	return err
}

// partsOf returns the keys of n parts.
func partsOf(index uint32, version uint64, n uint32) []bpf.VersionKey {
	keys := make([]bpf.VersionKey, n)
	for i := range keys {
		keys[i] = bpf.VersionKey{Version: version, Index: index, Part: uint32(i)}
	}
	return keys
}

// remove removes the value with an index, if there is one.
func (v *versioned[T]) remove(index uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changeLocked(index, 0, 0)
}

func (v *versioned[T]) changeLocked(index uint32, version uint64, parts uint32) {
	if old := atomic.SwapUint64(&v.current[index], version); old != 0 {
		v.old = append(v.old, partsOf(index, old, v.parts[index])...)
	}
	if delete(v.parts, index); parts > 0 {
		v.parts[index] = parts
	}
}

// takeOld returns elements that were replaced. The caller frees them after a grace period.
func (v *versioned[T]) takeOld() []bpf.VersionKey {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.old
	v.old = nil
	return old
}

// free deletes elements that no program uses any more.
func (v *versioned[T]) free(old []bpf.VersionKey) error {
	var errs []error
	for _, key := range old {
		errs = append(errs, v.elements.Delete(key))
	}
	return errors.Join(errs...)
}
