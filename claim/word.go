package claim

import (
	"sync/atomic"

	"sluice/claim/internal/hook"
)

// The types in this package that both senders share have a fixed layout, little-endian and with explicit padding, and
// consist of words. Every access to a word is atomic.

// Word is a 64-bit value that both senders share.
type Word struct{ v atomic.Uint64 }

// Word32 is a 32-bit value that both senders share.
type Word32 struct{ v atomic.Uint32 }

// Load returns the value.
func (w *Word) Load() uint64 {
	if hook.Interleave != nil {
		hook.Interleave(w, false)
	}
	return w.v.Load()
}

// Store sets the value.
func (w *Word) Store(x uint64) {
	if hook.Interleave != nil {
		hook.Interleave(w, true)
	}
	w.v.Store(x)
}

// Add adds delta, which may be the two's complement of a negative number, and returns the new value.
func (w *Word) Add(delta uint64) uint64 {
	if hook.Interleave != nil {
		hook.Interleave(w, true)
	}
	return w.v.Add(delta)
}

// Or sets bits and returns the old value.
func (w *Word) Or(bits uint64) uint64 {
	if hook.Interleave != nil {
		hook.Interleave(w, true)
	}
	return w.v.Or(bits)
}

// CompareAndSwap sets the value to x if it is old.
func (w *Word) CompareAndSwap(old, x uint64) bool {
	if hook.Interleave != nil {
		hook.Interleave(w, true)
	}
	return w.v.CompareAndSwap(old, x)
}

// Load returns the value.
func (w *Word32) Load() uint32 {
	if hook.Interleave != nil {
		hook.Interleave(w, false)
	}
	return w.v.Load()
}

// Store sets the value.
func (w *Word32) Store(x uint32) {
	if hook.Interleave != nil {
		hook.Interleave(w, true)
	}
	w.v.Store(x)
}

// Add adds delta and returns the new value.
func (w *Word32) Add(delta uint32) uint32 {
	if hook.Interleave != nil {
		hook.Interleave(w, true)
	}
	return w.v.Add(delta)
}
