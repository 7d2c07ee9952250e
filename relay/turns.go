package relay

import (
	"sync"
	"time"
)

// maxTurn is how long a piece of a response may take before others no longer wait for it: the peer may not read it.
const maxTurn = time.Second

// turns order the FETCH responses of one peer: while one has something to send, those of larger Subscriber Priority wait (draft §7). Equal ones
// share.
type turns struct {
	mu      sync.Mutex
	sending map[*fetch]time.Time // which have something to send, and since when they have sent nothing
	changed chan struct{}        // closed and replaced when somebody who waits may go on; nil if nobody waits
}

// take waits until a fetch may write its next piece. If it ends meanwhile, the write tells.
func (t *turns) take(f *fetch) {
	for {
		wait, until := t.enter(f)
		if wait == nil {
			return
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-wait:
		case <-timer.C:
		case <-f.req.Context().Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// enter returns nil if it is the turn of a fetch, or what to wait for and how long.
func (t *turns) enter(f *fetch) (wait <-chan struct{}, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sending == nil {
		t.sending = make(map[*fetch]time.Time)
	}
	now := time.Now()
	for better, since := range t.sending {
		if end := since.Add(maxTurn); better.priority < f.priority && now.Before(end) && end.After(until) {
			until = end
		}
	}
	if until.IsZero() {
		t.sending[f] = now
		return nil, until
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed, until
}

// give says that a fetch has nothing to send for now.
func (t *turns) give(f *fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sending, f)
	t.wake()
}

// setPriority changes the priority of a fetch, also while it waits.
func (t *turns) setPriority(f *fetch, p uint8) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.priority = p
	t.wake()
}

func (t *turns) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}
