// Package delay counts how long packets stay in the relay, with the same bins in the kernel and in user space
// (fastpath/bpf/shared/delay.h).
//
// A [Recorder] counts what user space has measured; a reader gets a [Histogram].
package delay

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts delays.
type Histogram struct {
	Sum  time.Duration
	Bins [Bins]uint64
}

// Add adds what another histogram has counted.
func (h *Histogram) Add(o *Histogram) {
	h.Sum += o.Sum
	for i, n := range o.Bins {
		h.Bins[i] += n
	}
}

// Count returns how many delays were counted.
func (h *Histogram) Count() (n uint64) {
	for _, b := range h.Bins {
		n += b
	}
	return n
}

// Below returns how many delays were counted in the bins below one.
func (h *Histogram) Below(bin int) (n uint64) {
	for _, b := range h.Bins[:bin] {
		n += b
	}
	return n
}

// Start returns the smallest delay of a bin.
func Start(bin int) time.Duration {
	if bin == 0 {
		return 0
	}
	octave, step := (bin-1)>>BinSteps, (bin-1)&(1<<BinSteps-1)
	return (1<<BinSteps + time.Duration(step)) << (BinFirst - BinSteps + octave)
}

// binOf returns the bin of a delay, as delay_bin does in the kernel.
func binOf(d time.Duration) int {
	switch {
	case d < 1<<BinFirst:
		return 0
	case d >= 1<<BinLast:
		return Bins - 1
	}
	log := bits.Len64(uint64(d)) - 1
	return 1 + (log-BinFirst)<<BinSteps + int(d>>(log-BinSteps)&(1<<BinSteps-1))
}

// Recorder counts delays while others read them. The zero value is ready for use.
type Recorder struct {
	sum  atomic.Int64
	bins [Bins]atomic.Uint64
}

// Note counts a delay.
func (r *Recorder) Note(d time.Duration) {
	r.sum.Add(int64(d))
	r.bins[binOf(d)].Add(1)
}

// AddTo adds the counts to h.
func (r *Recorder) AddTo(h *Histogram) {
	h.Sum += time.Duration(r.sum.Load())
	for i := range r.bins {
		h.Bins[i] += r.bins[i].Load()
	}
}
