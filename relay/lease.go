package relay

import (
	"context"
	"sync"
	"time"

	"sluice/moqt"
)

const (
	// reviewRetry is how long after a review without an answer the Authorizer is asked again. One that is down is not
	// asked all the time.
	reviewRetry = 10 * time.Second
	// minReview is the shortest time between the reviews that an Authorizer asks for in its Grants, whatever it says: a
	// review whose time has passed already would be repeated at once, again and again.
	minReview = time.Second
)

var (
	errExpired = &moqt.RequestError{
		Code: moqt.RequestExpiredAuthToken, Reason: "the permission has expired",
	}
	errWithdrawn = &moqt.RequestError{
		Code: moqt.RequestUnauthorized, Reason: "the authorization token was withdrawn",
	}
)

// lease is a Grant while it is in force: for a request of a peer (permission), or for a guest. It ends when the Grant
// expires, or when the Authorizer refuses it at a review. A timer and the relay's leases see to that, and not the
// goroutine that serves the request: that one may be waiting for a peer.
type lease struct {
	relay *Relay
	ctx   context.Context // of the session: reviews end with it
	// ask returns the question for the Authorizer, with the tokens of an update, if it has any, instead of older ones.
	ask  func(update []moqt.Token) AuthRequest
	from *lease // what this one was derived from, which may be extended; nil: nothing

	mu      sync.Mutex
	lost    func(why *moqt.RequestError) // nil before begin
	over    bool
	grant   Grant
	review  time.Time // when to ask again; zero: when the Authorizer has changed
	answers uint64    // that were used; a review is void if another answer was used meanwhile
	changes uint64    // of the Authorizer, before the last answer
	timer   *time.Timer

	queued bool // guarded by leases.mu
}

// obtain asks the Authorizer, with the tokens of an update if it has any.
func (l *lease) obtain(ctx context.Context, update []moqt.Token) *moqt.RequestError {
	changes := l.relay.leases.countChanges() // before the answer, which may be out of date by then
	grant, refused := l.relay.authorize(ctx, l.ask(update))
	if refused != nil {
		return refused
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.useLocked(grant, changes)
	return nil
}

// derive makes a lease that has the Grant of this one, as it is now and as it will be extended.
func (l *lease) derive(ask func([]moqt.Token) AuthRequest) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &lease{
		relay: l.relay, ctx: l.ctx, ask: ask, from: l, grant: l.grant, review: l.review, changes: l.changes,
	}
}

// begin watches the lease until release is called. lost is called, on a goroutine of its own, if it ends before.
func (l *lease) begin(lost func(why *moqt.RequestError)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.lost = lost
	l.relay.leases.add(l)
	l.watchLocked()
}

// release ends the lease, because nobody needs it any more.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked()
}

// current returns the Grant.
func (l *lease) current() Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant
}

// useLocked takes an answer of the Authorizer; mu is held.
func (l *lease) useLocked(g Grant, changes uint64) {
	l.answers++
	l.grant, l.review, l.changes = g, g.Review, changes
	if earliest := time.Now().Add(minReview); !g.Review.IsZero() && g.Review.Before(earliest) {
		l.review = earliest
	}
	l.watchLocked()
}

// watchLocked sees to it that the lease is looked at when something is due; mu is held.
func (l *lease) watchLocked() {
	if l.lost == nil || l.over {
		return
	}
	if l.relay.tokens.Has(l.grant.Subject) {
		go l.lose(errWithdrawn)
		return
	}
	if l.changes != l.relay.leases.countChanges() {
		l.relay.leases.queue(l)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	next := l.grant.Expires
	if next.IsZero() || !l.review.IsZero() && l.review.Before(next) {
		next = l.review
	}
	if !next.IsZero() {
		l.timer = time.AfterFunc(time.Until(next), l.due)
	}
}

// due looks what the timer was set for.
func (l *lease) due() {
	l.mu.Lock()
	now, expires := time.Now(), l.grant.Expires
	if l.from != nil && isPast(expires, now) {
		if longer := l.from.current(); !isPast(longer.Expires, now) {
			l.useLocked(longer, l.changes)
			expires = longer.Expires
		}
	}
	expired, stale := isPast(expires, now), isPast(l.review, now)
	if !expired && !stale {
		l.watchLocked()
	}
	l.mu.Unlock()
	switch {
	case expired:
		l.lose(errExpired)
	case stale:
		l.check()
	}
}

func isPast(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// check reviews the lease: it ends if the Authorizer refuses it now, and goes on if the Authorizer has no answer.
func (l *lease) check() {
	l.mu.Lock()
	answers, over := l.answers, l.over
	l.mu.Unlock()
	if over {
		return
	}
	changes := l.relay.leases.countChanges()
	grant, refused := l.relay.authorize(l.ctx, l.ask(nil))
	l.mu.Lock()
	void := l.answers != answers
	switch {
	case void:
	case refused == nil:
		l.useLocked(grant, changes)
	case isNoAnswer(refused):
		wait := reviewRetry
		if refused.Code == moqt.RequestExcessiveLoad {
			wait = minReview // others are asked about now
		}
		l.review, l.changes = time.Now().Add(wait), changes
		l.watchLocked()
	}
	l.mu.Unlock()
	if !void && refused != nil && !isNoAnswer(refused) {
		l.lose(refused)
	}
}

// isNoAnswer reports whether the Authorizer has failed to decide, so that an open request goes on.
func isNoAnswer(e *moqt.RequestError) bool {
	return e.Code == moqt.RequestInternalError || e.Code == moqt.RequestExcessiveLoad
}

// lose ends the lease, and tells that to its holder.
func (l *lease) lose(why *moqt.RequestError) {
	l.mu.Lock()
	ended := l.endLocked()
	l.mu.Unlock()
	if ended {
		l.lost(why)
	}
}

// endLocked ends the lease, and reports whether it was in force; mu is held.
func (l *lease) endLocked() bool {
	if l.over {
		return false
	}
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.relay.leases.remove(l)
	return l.lost != nil
}
