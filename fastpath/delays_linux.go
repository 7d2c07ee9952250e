package fastpath

import (
	"fmt"
	"sync/atomic"
	"time"

	"sluice/fastpath/bpf"
	"sluice/internal/delay"
)

// Measure has the programs measure how long packets stay in the relay until their copies leave, or ends that.
func (f *FastPath) Measure(on bool) {
	if !f.enter() {
		return
	}
	defer f.exit()
	f.kernel.Measure(on)
}

// Measure begins or ends to measure delays.
func (k *kernel) Measure(on bool) {
	var word uint64
	if on {
		word = 1
	}
	atomic.StoreUint64(&k.measuring[0], word)
}

// Delays returns the delays that were measured: from when a publisher's packet came to the program at the device until
// a copy was handed to the subscriber's device.
func (f *FastPath) Delays() (h delay.Histogram, err error) {
	if !f.enter() {
		return h, errClosed
	}
	defer f.exit()
	return f.kernel.Delays()
}

// Delays returns the delays that were measured on all CPUs.
func (k *kernel) Delays() (h delay.Histogram, err error) {
	var perCPU []bpf.DelayCounts
	if err := k.ingress.Delays.Lookup(uint32(0), &perCPU); err != nil {
		return h, fmt.Errorf("fast path: read the delays: %w", err)
	}
	for _, d := range perCPU {
		h.Add(&delay.Histogram{Sum: time.Duration(d.Sum), Bins: d.Bins})
	}
	return h, nil
}
