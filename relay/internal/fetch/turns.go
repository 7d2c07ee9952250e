package fetch

import (
	"sync"
	"time"
)

// maxTurn is how long a piece of a response may take before others stop waiting for it: the peer may not read it.
const maxTurn = time.Second

// Turns order the FETCH responses of one peer: while a response has something to send, responses with a larger
// Subscriber Priority number wait (draft §7). Responses of equal priority share.
type Turns struct {
	mu      sync.Mutex
	sending map[*response]time.Time // responses with something to send, and since when they have sent nothing
	changed chan struct{}           // closed and replaced when a waiting response may go on; nil if none waits
}

// take waits until a response may send its next piece, or its request is over: then the write fails.
func (t *Turns) take(r *response) {
	for {
		wait, until := t.enter(r)
		if wait == nil {
			return
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-wait:
		case <-timer.C:
		case <-r.req.Context().Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// enter returns nil if it is the turn of a response, or what to wait for and how long.
func (t *Turns) enter(r *response) (wait <-chan struct{}, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sending == nil {
		t.sending = make(map[*response]time.Time)
	}
	now := time.Now()
	for better, since := range t.sending {
		if end := since.Add(maxTurn); better.priority < r.priority && now.Before(end) && end.After(until) {
			until = end
		}
	}
	if until.IsZero() {
		t.sending[r] = now
		return nil, until
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed, until
}

// give lets others go on: the response has nothing to send for now.
func (t *Turns) give(r *response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sending, r)
	t.wakeLocked()
}

// setPriority changes the priority of a response, also while it waits.
func (t *Turns) setPriority(r *response, p uint8) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.priority = p
	t.wakeLocked()
}

// wakeLocked makes all waiting responses look again; mu is held.
func (t *Turns) wakeLocked() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}
