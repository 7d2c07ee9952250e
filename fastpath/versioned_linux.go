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
	elements *ebpf.Map
	current  []uint64 // the version by index, shared with the programs; 0: none

	mu   sync.Mutex // guards all below, and changes of current
	last uint64     // version that was given
	old  []bpf.VersionKey
}

// put replaces the value with an index.
func (v *versioned[T]) put(index uint32, value T) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	key := bpf.VersionKey{Version: v.last, Index: index}
	err := v.elements.Put(key, value)
	if errors.Is(err, unix.E2BIG) { // too many have been replaced since the reclaimer last came
		old := v.old
		v.old = nil
		awaitGracePeriod()
		err = errors.Join(v.free(old), v.elements.Put(key, value))
	}
	if err != nil {
		return err
	}
	v.changeLocked(index, key.Version)
	return nil
}

// remove removes the value with an index, if there is one.
func (v *versioned[T]) remove(index uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changeLocked(index, 0)
}

func (v *versioned[T]) changeLocked(index uint32, version uint64) {
	if old := atomic.SwapUint64(&v.current[index], version); old != 0 {
		v.old = append(v.old, bpf.VersionKey{Version: old, Index: index})
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
