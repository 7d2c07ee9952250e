package relay

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

const (
	// openTimeout is how long to wait for a request stream to a publisher that allows no more of them.
	openTimeout = 5 * time.Second
	// retryDelay is how long a publisher is left alone that refused or ended a subscription, while others are there.
	retryDelay = time.Second
	// minExtension is how often a subscription is extended at most, however soon it expires.
	minExtension = time.Second
	// silence is how long a publisher sends nothing before it may be thought of as dead, if there is another one that says so. A crashed one
	// is there until its session's idle timeout.
	silence = 2 * time.Second
)

// upstream is a subscription of the relay at a publisher (draft §5.1). It is the session.Receiver of its data.
type upstream struct {
	hub     *hub
	peer    *peer
	offered bool          // by PUBLISH
	pauses  bool          // offered with Forward 0: the publisher waits until it is told that somebody wants the track
	ready   chan struct{} // closed when subscribers that waited have been accepted, or there is nothing to wait for
	kick    chan struct{} // wakes run

	// Guarded by hub.mu.
	sub         *session.Subscription // nil while SUBSCRIBE is being sent
	established bool
	sequence    int
	forward     bool          // Forward State
	group       *groupRequest // sent last
	over        bool
	suspect     bool // it may be an earlier publisher that was restarted: see judge

	active atomic.Int64 // when data came last, in nanoseconds since 1970
}

func newUpstream(h *hub, p *peer) *upstream {
	return &upstream{hub: h, peer: p, ready: make(chan struct{}), kick: make(chan struct{}, 1)}
}

// announced is called when a peer has announced the track's namespace or a prefix of it.
func (h *hub) announced(p *peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.down) > 0 {
		h.recruit(p)
	}
}

// recruit subscribes at the peers, unless there are subscriptions already; mu is held.
func (h *hub) recruit(peers ...*peer) {
	established, _ := h.established()
	now := time.Now()
	for _, p := range peers {
		if h.up[p] != nil || p.isBarred(h) || established && now.Before(h.backoff[p]) {
			continue
		}
		u := newUpstream(h, p)
		u.forward = true // whatever the subscribers say (draft §9.2)
		u.group = h.group
		h.up[p] = u
		h.relay.tasks.Go(u.subscribe)
	}
}

// subscribe sends SUBSCRIBE and serves the subscription until it ends.
func (u *upstream) subscribe() {
	h := u.hub
	ctx, cancel := context.WithTimeout(u.peer.session.Context(), openTimeout)
	// Without a filter, so that publishers send the current group from its start, as many do: one that serves no FETCH has no other way to
	// give its catalog to those who come late.
	m := moqt.Subscribe{Track: h.name}
	if u.group != nil {
		m.Parameters.NewGroupRequest = &u.group.value
	}
	sub, err := u.peer.session.Subscribe(ctx, m, u)
	cancel()
	if err != nil {
		u.ended(err)
		return
	}
	h.mu.Lock()
	u.sub = sub
	over := u.over
	h.mu.Unlock()
	if over {
		sub.Cancel(moqt.ResetCancelled)
	}
	ok, err := sub.Wait(context.Background()) // bounded by the session
	if err == nil && ok == nil {
		err = context.Cause(sub.Context())
	}
	if err != nil {
		u.ended(err)
		return
	}
	u.establish(ok.Parameters.LargestObject, ok.Properties)
	u.run(ok.Parameters.Expires, &lease{})
}

// establish lets the subscribers in that wait, before any object is taken in.
func (u *upstream) establish(largest *moqt.Location, p moqt.Properties) {
	h := u.hub
	h.mu.Lock()
	others := !h.dismissEnding()
	restarted := h.isRestart(largest)
	if restarted && !others {
		h.startOver()
	}
	if restarted && others {
		u.suspect = true
		time.AfterFunc(silence, u.judge)
	}
	h.sequence++
	u.established, u.sequence = true, h.sequence
	h.failure = nil
	h.describe(largest, p)
	stopTimer(&h.grace)
	h.settle()
	h.refresh()
	h.mu.Unlock()
	close(u.ready)
}

// dismissEnding reports whether no publisher has the track but some that have sent PUBLISH_DONE. Those are not waited for any longer, now that
// there is another; mu is held.
func (h *hub) dismissEnding() bool {
	var ending []*upstream
	for _, u := range h.up {
		switch {
		case !u.established:
		case !u.isEnding():
			return false
		default:
			ending = append(ending, u)
		}
	}
	for _, u := range ending {
		u.cancel(moqt.ResetCancelled)
	}
	return true
}

func (u *upstream) isEnding() bool {
	select {
	case <-u.sub.Ending():
		return true
	default:
		return false
	}
}

// judge decides whether a publisher that knows less of the track than the relay has replaced those that were there before, whose sessions
// did not end although they are dead.
func (u *upstream) judge() {
	h := u.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	u.suspect = false
	if u.over || !u.isActive() {
		return
	}
	for _, o := range h.up {
		if o != u && o.established && o.isActive() {
			return
		}
	}
	for _, o := range h.up {
		if o != u && o.established {
			o.cancel(moqt.ResetCancelled)
		}
	}
	h.startOver()
}

func (u *upstream) isActive() bool { return time.Since(time.Unix(0, u.active.Load())) < silence }

// isRestart reports whether a publisher knows less of the track than the relay: it has lost its state (draft §2.4.3), and what it publishes
// now may be something else under the same ids.
func (h *hub) isRestart(largest *moqt.Location) bool {
	known := h.data.Largest()
	return known != nil && (largest == nil || largest.Less(*known))
}

// wake makes run compare what is wanted with what the publisher was told.
func (u *upstream) wake() {
	select {
	case u.kick <- struct{}{}:
	default:
	}
}

// cancel ends the subscription; hub.mu is held.
func (u *upstream) cancel(code moqt.StreamResetCode) {
	u.over = true
	if u.sub != nil {
		u.sub.Cancel(code)
	}
}

// run updates the established subscription until it ends. It extends it before it expires (draft §10.2.10); permit is
// that of a publisher that offered the track.
func (u *upstream) run(expires *uint64, permit *lease) {
	extend := time.NewTimer(untilExtension(expires))
	defer extend.Stop()
	u.wake()
	for {
		due := false
		select {
		case <-u.sub.Context().Done():
			u.ended(context.Cause(u.sub.Context()))
			return
		case <-permit.expired:
			u.sub.Cancel(moqt.ResetExpiredAuthToken)
			continue
		case <-permit.due:
			if permit.review() != nil {
				u.sub.Cancel(moqt.ResetExpiredAuthToken)
			}
			continue
		case m := <-u.sub.Updates():
			u.updated(m, permit)
			continue
		case <-extend.C:
			due = true
		case <-u.kick:
		}
		if ok := u.update(due); ok != nil {
			extend.Reset(untilExtension(ok.Parameters.Expires))
		}
	}
}

// untilExtension is when to extend a subscription that expires: in time for the answer, but not all the time.
func untilExtension(expires *uint64) time.Duration {
	if expires == nil || *expires == 0 {
		return math.MaxInt64
	}
	d := moqt.Milliseconds(*expires)
	return max(d-d/4, minExtension)
}

// update tells the publisher what it does not know yet, or with due just extends the subscription.
func (u *upstream) update(due bool) *moqt.RequestOK {
	h := u.hub
	var p moqt.Parameters
	h.mu.Lock()
	forward := h.forward || !u.pauses
	if forward != u.forward {
		p.Forward = &forward
	}
	if h.group != u.group {
		u.group = h.group
		if h.properties.DynamicGroups() {
			p.NewGroupRequest = &h.group.value
		}
	}
	h.mu.Unlock()
	if p.Forward == nil && p.NewGroupRequest == nil && !due {
		return nil
	}
	ok, err := u.sub.Update(context.Background(), p) // bounded by the session
	if err != nil {
		return nil // the publisher ends the subscription
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	u.forward = forward
	if ok.Parameters.LargestObject != nil {
		h.data.RaiseLargest(*ok.Parameters.LargestObject)
	}
	h.settle()
	u.wake() // what was wanted may have changed meanwhile
	return ok
}

// updated answers a REQUEST_UPDATE of a publisher that offered the track, with which it can only renew its permission.
func (u *upstream) updated(m *session.Update, permit *lease) {
	if refused := permit.extend(m.Tokens); refused != nil {
		_ = m.Reject(refused) // fails only if the request is over
		u.sub.Cancel(moqt.ResetExpiredAuthToken)
		return
	}
	_ = m.OK(moqt.Parameters{Expires: permit.expires()})
}

// ended forgets the subscription, and finds a replacement or ends those that depend on it.
func (u *upstream) ended(cause error) {
	h := u.hub
	others := h.relay.publishersOf(h.place)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !u.established {
		close(u.ready)
	}
	u.over = true
	if h.up[u.peer] != u {
		return // replaced by a PUBLISH of the same peer
	}
	delete(h.up, u.peer)
	h.configure()
	h.accelerate()
	if refused, ok := errors.AsType[*moqt.RequestError](cause); ok {
		h.failure = passOn(refused)
	}
	again := time.Now().Before(h.backoff[u.peer])
	h.setBackoff(u.peer)
	if established, _ := h.established(); !established && len(h.down) > 0 && u.established {
		h.bereaved(cause)
		if !again && len(h.down) > 0 {
			h.recruit(others...)
		}
	}
	h.settle()
}

func (h *hub) setBackoff(p *peer) {
	now := time.Now()
	for p, until := range h.backoff {
		if now.After(until) {
			delete(h.backoff, p)
		}
	}
	if h.backoff == nil {
		h.backoff = make(map[*peer]time.Time)
	}
	h.backoff[p] = now.Add(retryDelay)
}

// bereaved decides what becomes of subscribers without a publisher; mu is held.
func (h *hub) bereaved(cause error) {
	code, reason := doneFor(cause)
	switch {
	case code == moqt.DoneTrackEnded && !hasLeft(cause):
		h.finishAll(code, reason, nil)
	case code == moqt.DoneMalformedTrack:
		reset := moqt.ResetMalformedTrack
		h.finishAll(code, reason, &reset)
	default:
		stopTimer(&h.grace)
		h.grace = time.AfterFunc(h.relay.cfg.Grace, func() { h.mourn(code, reason) })
	}
}

// mourn ends the subscriptions if no publisher has come back.
func (h *hub) mourn(code moqt.PublishDoneCode, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if established, _ := h.established(); established {
		return
	}
	if len(h.up) > 0 { // somebody was asked and has not answered yet
		h.grace = time.AfterFunc(h.relay.cfg.Grace, func() { h.mourn(code, reason) })
		return
	}
	h.finishAll(code, reason, nil)
}

// hasLeft reports whether a publisher went without PUBLISH_DONE but of its own will: it cancelled the request, or ended its session
// without an error. It may come back on another session.
func hasLeft(cause error) bool {
	if reset, ok := errors.AsType[*transport.StreamError](cause); ok {
		return reset.Remote
	}
	ended, ok := errors.AsType[*transport.SessionError](cause)
	return ok && ended.Remote && ended.Code == uint64(moqt.SessionNoError)
}

// doneFor says with which PUBLISH_DONE subscriptions end because their publisher's ended.
func doneFor(cause error) (moqt.PublishDoneCode, string) {
	if hasLeft(cause) {
		return moqt.DoneTrackEnded, "the publisher has left"
	}
	done, ok := errors.AsType[*session.DoneError](cause)
	if !ok {
		return moqt.DoneInternalError, "the publisher is gone"
	}
	switch done.Status {
	case moqt.DoneTrackEnded, moqt.DoneSubscriptionEnded:
		return moqt.DoneTrackEnded, done.Reason
	case moqt.DoneMalformedTrack, moqt.DoneExcessiveLoad:
		return done.Status, done.Reason
	}
	return moqt.DoneInternalError, done.Error()
}

// passOn is what subscribers are told if a publisher refused. A retry is theirs to decide on again, and a redirect names tracks, not hosts,
// as publishers are clients (draft §10.6.1).
func passOn(e *moqt.RequestError) *moqt.RequestError {
	switch e.Code {
	case moqt.RequestDoesNotExist, moqt.RequestTimeout, moqt.RequestInvalidRange, moqt.RequestExcessiveLoad, moqt.RequestUnsupportedExtension,
		moqt.RequestMalformedTrack, moqt.RequestRedirect, moqt.RequestNotSupported:
		return e
	}
	return &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "the publisher refused: " + e.Error()}
}
