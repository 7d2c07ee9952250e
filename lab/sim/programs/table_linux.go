package programs

import (
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/fastpath"
	"sluice/fastpath/bpf"
)

// table is a hash map. User space uses it as [fastpath.Table], and programs by the methods in lower case.
type table[K comparable, V any] struct {
	max int

	mu     sync.Mutex
	values map[K]V
}

func newTable[K comparable, V any](most int) *table[K, V] {
	return &table[K, V]{max: most, values: make(map[K]V)}
}

func (t *table[K, V]) get(key K) (value V, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok = t.values[key]
	return value, ok
}

// insert inserts an element, unless there is one with the key.
func (t *table[K, V]) insert(key K, value V) error { return t.Update(key, value, ebpf.UpdateNoExist) }

// change changes an element, if there is one.
func (t *table[K, V]) change(key K, f func(*V)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.values[key]; ok {
		f(&v)
		t.values[key] = v
	}
}

// Lookup implements [fastpath.Table].
func (t *table[K, V]) Lookup(key, value any) error {
	v, ok := t.get(key.(K))
	if !ok {
		return ebpf.ErrKeyNotExist
	}
	*value.(*V) = v
	return nil
}

// LookupAndDelete implements [fastpath.Table].
func (t *table[K, V]) LookupAndDelete(key, value any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.values[key.(K)]
	if !ok {
		return ebpf.ErrKeyNotExist
	}
	delete(t.values, key.(K))
	*value.(*V) = v
	return nil
}

// BatchLookup implements [fastpath.Table]. It returns all elements at once: there are fewer than a batch may have.
func (t *table[K, V]) BatchLookup(_ *ebpf.MapBatchCursor, keys, values any, _ *ebpf.BatchOptions) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, v := range t.values {
		keys.([]K)[n], values.([]V)[n] = k, v
		n++
	}
	return n, ebpf.ErrKeyNotExist
}

// Update implements [fastpath.Table].
func (t *table[K, V]) Update(key, value any, flags ebpf.MapUpdateFlags) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.values[key.(K)]
	switch {
	case ok && flags == ebpf.UpdateNoExist:
		return ebpf.ErrKeyExist
	case !ok && len(t.values) >= t.max:
		return unix.E2BIG
	}
	t.values[key.(K)] = value.(V)
	return nil
}

// Delete implements [fastpath.Table].
func (t *table[K, V]) Delete(key any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.values[key.(K)]; !ok {
		return ebpf.ErrKeyNotExist
	}
	delete(t.values, key.(K))
	return nil
}

// stack is a map of that kind, of slots.
type stack struct {
	*table[int, uint32] // by height
}

func newStack(n int) stack {
	s := stack{newTable[int, uint32](n)}
	for i := range n {
		s.push(uint32(i))
	}
	return s
}

func (s stack) push(slot uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[len(s.values)] = slot
}

func (s stack) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

func (s stack) pop() (slot uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	top := len(s.values) - 1
	slot, ok = s.values[top]
	delete(s.values, top)
	return slot, ok
}

// Update implements [fastpath.Table].
func (s stack) Update(_, value any, _ ebpf.MapUpdateFlags) error {
	s.push(value.(uint32))
	return nil
}

// LookupAndDelete implements [fastpath.Table].
func (s stack) LookupAndDelete(_, value any) error {
	slot, ok := s.pop()
	if !ok {
		return ebpf.ErrKeyNotExist
	}
	*value.(*uint32) = slot
	return nil
}

// counters count reasons. User space only looks them up.
type counters struct {
	fastpath.Table
	of [bpf.IngressReasonREASON_COUNT]atomic.Uint64
}

// Lookup implements [fastpath.Table], as for a map that each processor has.
func (c *counters) Lookup(key, value any) error {
	*value.(*[]uint64) = []uint64{c.of[key.(uint32)].Load()}
	return nil
}
