package session

import (
	"time"

	"sluice/moqt"
)

// maxDrain bounds how long the state of an ended subscription is kept, whatever delivery timeouts its publisher chose.
const maxDrain = time.Minute

// datagramGrace is how long datagrams may lag behind PUBLISH_DONE, which counts streams only.
const datagramGrace = 100 * time.Millisecond

// drain follows the data streams of a subscription, to tell when the last one has been handled (draft §10.11).
type drain struct {
	active    map[*Subgroup]struct{}
	finished  uint64 // streams that were handled
	expected  uint64 // the publisher's Stream Count
	datagrams bool   // there were some, and late ones have not had their time yet
	cause     error  // why the subscription ends; nil while it does not
	expired   bool
	timers    []*time.Timer
}

// complete reports whether no more streams have to be awaited.
func (d *drain) complete() bool {
	return d.cause != nil && len(d.active) == 0 && (d.expired || d.finished >= d.expected && !d.datagrams)
}

// stop abandons the streams that are still being read.
func (d *drain) stop() {
	for _, timer := range d.timers {
		timer.Stop()
	}
	for g := range d.active {
		g.CancelRead(uint64(moqt.ResetCancelled))
	}
}

// startDraining is called when the publisher will open no more streams.
func (sub *Subscription) startDraining(cause error, streams uint64) {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	d := &sub.drain
	if sub.over || d.cause != nil {
		return
	}
	close(sub.ending)
	sub.leave()
	if sub.answered {
		sub.out.finish()
	}
	d.cause, d.expected = cause, streams
	sub.drainAfter(min(max(sub.deliveryTimeout(), sub.s.cfg.Timeouts.Drain), maxDrain), func() { d.expired = true })
	if d.datagrams {
		sub.drainAfter(datagramGrace, func() { d.datagrams = false })
	}
	sub.finishDraining()
}

// drainAfter changes the state of draining after some time.
func (sub *Subscription) drainAfter(timeout time.Duration, change func()) {
	sub.drain.timers = append(sub.drain.timers, time.AfterFunc(timeout, func() {
		sub.s.mu.Lock()
		defer sub.s.mu.Unlock()
		change()
		sub.finishDraining()
	}))
}

func (sub *Subscription) finishDraining() {
	if sub.drain.complete() {
		sub.endLocked(sub.drain.cause)
	}
}

// beginStream enters a data stream of the subscription. It reports false if the subscription is over.
func (sub *Subscription) beginStream(g *Subgroup) bool {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	if sub.over {
		return false
	}
	if sub.drain.active == nil {
		sub.drain.active = make(map[*Subgroup]struct{})
	}
	sub.drain.active[g] = struct{}{}
	return true
}

func (sub *Subscription) endStream(g *Subgroup) {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	delete(sub.drain.active, g)
	sub.drain.finished++
	sub.finishDraining()
}
