package session

import (
	"time"

	"sluice/moqt"
)

// maxDrain bounds how long the state of an ended subscription is kept, whatever delivery timeouts its publisher chose.
const maxDrain = time.Minute

// drain follows the data streams of a subscription, to tell when the last one has been handled (draft §10.11).
type drain struct {
	active   map[*Subgroup]struct{}
	finished uint64 // streams that were handled
	expected uint64 // the publisher's Stream Count
	cause    error  // why the subscription ends; nil while it does not
	expired  bool
	timer    *time.Timer
}

// complete reports whether no more streams have to be awaited.
func (d *drain) complete() bool {
	return d.cause != nil && len(d.active) == 0 && (d.expired || d.finished >= d.expected)
}

// stop abandons the streams that are still being read.
func (d *drain) stop() {
	if d.timer != nil {
		d.timer.Stop()
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
	timeout := min(max(sub.deliveryTimeout(), sub.s.cfg.Timeouts.Drain), maxDrain)
	d.timer = time.AfterFunc(timeout, sub.drainExpired)
	sub.finishDraining()
}

func (sub *Subscription) drainExpired() {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	sub.drain.expired = true
	sub.finishDraining()
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
