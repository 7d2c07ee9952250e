package session

import (
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// maxDrain limits how long the state of an ended subscription is kept, whatever delivery timeouts its publisher chose.
const maxDrain = time.Minute

// datagramGrace is how long datagrams may arrive after PUBLISH_DONE, which counts only streams.
const datagramGrace = 100 * time.Millisecond

// drain counts the data streams of a subscription. After PUBLISH_DONE it ends the subscription when the last stream
// has been handled, or after a timeout (draft §10.11).
type drain struct {
	sub *Subscription

	// Guarded by s.mu.
	active    map[transport.ReceiveStream]struct{}
	finished  uint64 // streams that were handled
	expected  uint64 // the publisher's Stream Count
	datagrams bool   // there were some, and late ones may still arrive
	cause     error  // why the subscription ends; nil before start
	expired   bool
	timers    []*time.Timer
}

// start is called when the publisher will open no more streams.
func (d *drain) start(cause error, streams uint64) {
	sub := d.sub
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	if sub.over || d.cause != nil {
		return
	}
	close(sub.ending)
	sub.leaveLocked()
	if sub.answered {
		sub.out.finish()
	}
	d.cause, d.expected = cause, streams
	timeout := max(sub.deliveryTimeoutLocked(), drainTime)
	d.afterLocked(min(timeout, maxDrain), func() { d.expired = true })
	if d.datagrams {
		d.afterLocked(datagramGrace, func() { d.datagrams = false })
	}
	d.finishLocked()
}

// begin adds a data stream of the subscription. It returns false if the subscription is over.
func (d *drain) begin(g transport.ReceiveStream) bool {
	d.sub.s.mu.Lock()
	defer d.sub.s.mu.Unlock()
	if d.sub.over {
		return false
	}
	if d.active == nil {
		d.active = make(map[transport.ReceiveStream]struct{})
	}
	d.active[g] = struct{}{}
	return true
}

// end removes a data stream that has been handled.
func (d *drain) end(g transport.ReceiveStream) {
	d.sub.s.mu.Lock()
	defer d.sub.s.mu.Unlock()
	delete(d.active, g)
	d.finished++
	d.finishLocked()
}

// expectDatagramsLocked notes that objects of the subscription arrive in datagrams. s.mu is held.
func (d *drain) expectDatagramsLocked() {
	if d.cause == nil {
		d.datagrams = true
	}
}

// afterLocked calls change after a timeout, and ends the subscription if that completes the drain. s.mu is held, also
// when change is called.
func (d *drain) afterLocked(timeout time.Duration, change func()) {
	d.timers = append(d.timers, time.AfterFunc(timeout, func() {
		d.sub.s.mu.Lock()
		defer d.sub.s.mu.Unlock()
		change()
		d.finishLocked()
	}))
}

// finishLocked ends the subscription if nothing more is expected. s.mu is held.
func (d *drain) finishLocked() {
	arrived := d.finished >= d.expected && !d.datagrams
	if d.cause != nil && len(d.active) == 0 && (d.expired || arrived) {
		d.sub.endLocked(d.cause)
	}
}

// stopLocked resets the streams that are still being read. s.mu is held.
func (d *drain) stopLocked() {
	for _, timer := range d.timers {
		timer.Stop()
	}
	for g := range d.active {
		g.CancelRead(uint64(moqt.ResetCancelled))
	}
}
