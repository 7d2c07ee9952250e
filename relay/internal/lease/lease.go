// Package lease watches what an Authorizer has granted, for as long as it is in force. A [Lease] is one [Grant]: it
// ends when the Grant expires, when a review refuses it, or when its token is withdrawn. [Leases] are all that a relay
// has given.
package lease

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

// Grant is a permission.
type Grant struct {
	Expires time.Time // zero: as long as the session
	// Review is when the relay calls Authorize again, with the same request, to learn whether the permission still
	// stands. Zero: only when a Reviewer says so.
	Review time.Time
	// Subject identifies the token, or the user or customer whose token it is. All that is granted to a subject counts
	// for its quota: see Config.PerToken. It appears in logs, so it must not be the token itself. Empty: only the quota
	// of the peer's address counts.
	Subject string
}

// Ask asks the Authorizer, with the tokens of an update, if it has any, instead of older ones.
type Ask func(ctx context.Context, update []moqt.Token) (Grant, *moqt.RequestError)

// Lease is a Grant while it is in force: for a request of a peer, or for a guest. A timer and the Leases see to its
// end, and not the goroutine that serves the request: that one may be waiting for a peer.
type Lease struct {
	among *Leases
	ctx   context.Context // of the session: reviews end with it
	ask   Ask
	from  *Lease // what this one was derived from, which may be extended; nil: nothing

	mu      sync.Mutex
	lost    func(why *moqt.RequestError) // nil before Begin
	over    bool
	grant   Grant
	review  time.Time // when to ask again; zero: when the Authorizer has changed
	answers uint64    // that were used; a review is void if another answer was used meanwhile
	changes uint64    // of the Authorizer, before the last answer
	timer   *time.Timer

	queued bool // guarded by Leases.mu
}

// Obtain asks the Authorizer, with the tokens of an update if it has any.
func (l *Lease) Obtain(ctx context.Context, update []moqt.Token) *moqt.RequestError {
	changes := l.among.countChanges() // before the answer, which may be out of date by then
	grant, refused := l.answer(ctx, update)
	if refused != nil {
		return refused
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.useLocked(grant, changes)
	return nil
}

// answer returns what the Authorizer says. A token that is withdrawn allows nothing.
func (l *Lease) answer(ctx context.Context, update []moqt.Token) (Grant, *moqt.RequestError) {
	grant, refused := l.ask(ctx, update)
	if refused == nil && l.among.Withdrawn.Has(grant.Subject) {
		return Grant{}, errWithdrawn
	}
	return grant, refused
}

// Derive makes a lease that has the Grant of this one, as it is now and as it will be extended.
func (l *Lease) Derive(ask Ask) *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Lease{
		among: l.among, ctx: l.ctx, ask: ask, from: l, grant: l.grant, review: l.review, changes: l.changes,
	}
}

// Begin watches the lease until Release is called. lost is called, on a goroutine of its own, if it ends before.
func (l *Lease) Begin(lost func(why *moqt.RequestError)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.lost = lost
	l.among.add(l)
	l.watchLocked()
}

// Release ends the lease, because nobody needs it any more.
func (l *Lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked()
}

// Current returns the Grant.
func (l *Lease) Current() Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant
}

// useLocked takes an answer of the Authorizer; mu is held.
func (l *Lease) useLocked(g Grant, changes uint64) {
	l.answers++
	l.grant, l.review, l.changes = g, g.Review, changes
	if earliest := time.Now().Add(minReview); !g.Review.IsZero() && g.Review.Before(earliest) {
		l.review = earliest
	}
	l.watchLocked()
}

// watchLocked sees to it that the lease is looked at when something is due; mu is held.
func (l *Lease) watchLocked() {
	if l.lost == nil || l.over {
		return
	}
	if l.among.Withdrawn.Has(l.grant.Subject) {
		go l.lose(errWithdrawn)
		return
	}
	if l.changes != l.among.countChanges() {
		l.among.queue(l)
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
func (l *Lease) due() {
	l.mu.Lock()
	now, expires := time.Now(), l.grant.Expires
	if l.from != nil && isPast(expires, now) {
		if longer := l.from.Current(); !isPast(longer.Expires, now) {
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
func (l *Lease) check() {
	l.mu.Lock()
	answers, over := l.answers, l.over
	l.mu.Unlock()
	if over {
		return
	}
	changes := l.among.countChanges()
	grant, refused := l.answer(l.ctx, nil)
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
func (l *Lease) lose(why *moqt.RequestError) {
	l.mu.Lock()
	ended := l.endLocked()
	l.mu.Unlock()
	if ended {
		l.lost(why)
	}
}

// endLocked ends the lease, and reports whether it was in force; mu is held.
func (l *Lease) endLocked() bool {
	if l.over {
		return false
	}
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.among.remove(l)
	return l.lost != nil
}
