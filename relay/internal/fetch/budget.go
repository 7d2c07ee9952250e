package fetch

import (
	"context"
	"time"

	"sluice/moqt"
)

// Budget is how long a FETCH may wait for publishers, upstream relays that connect, or objects that come by
// subscription: FILL_TIMEOUT limits all waits together (draft §10.2.5), the relay's own limit each wait for a
// publisher, all those for upstream relays, and all those for objects.
type Budget struct {
	each    time.Duration
	limited bool          // the peer sent FILL_TIMEOUT:
	left    time.Duration // the part of it that is left
	arrival time.Duration // was spent on objects that may come by subscription
	connect time.Time     // until when upstream relays may connect; zero before the first wait
	idle    func()        // called before a wait; nil: nothing
}

// NewBudget returns a budget with the relay's limit, and with the FILL_TIMEOUT of a request if it has one.
func NewBudget(each time.Duration, params *moqt.Parameters) Budget {
	b := Budget{each: each}
	if ms := params.FillTimeout; ms != nil {
		b.limited, b.left = true, moqt.Milliseconds(*ms)
	}
	return b
}

// next returns how long the next wait may take.
func (b *Budget) next() time.Duration {
	if b.limited {
		return min(b.left, b.each)
	}
	return b.each
}

// isUsedUp reports whether the peer limited the time, and nothing of it is left.
func (b *Budget) isUsedUp() bool { return b.limited && b.left <= 0 }

// wait begins a wait, and returns what ends it.
func (b *Budget) wait() (done func()) {
	if b.idle != nil {
		b.idle()
	}
	start := time.Now()
	return func() { b.left -= time.Since(start) }
}

// nextForArrival returns how long the next wait for an object may take.
func (b *Budget) nextForArrival() time.Duration { return min(b.next(), b.each-b.arrival) }

// spendOnArrival subtracts the time since start, in which an object was awaited.
func (b *Budget) spendOnArrival(start time.Time) {
	b.left -= time.Since(start)
	b.arrival += time.Since(start)
}

// Await waits for a change that an upstream relay may cause when it has connected. It returns false if the time is up,
// or the context done.
func (b *Budget) Await(ctx context.Context, change <-chan struct{}) bool {
	defer b.wait()()
	if b.connect.IsZero() {
		b.connect = time.Now().Add(b.each)
	}
	wait := min(b.next(), time.Until(b.connect))
	if wait <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-change:
		return true
	case <-ctx.Done():
		return false
	}
}
