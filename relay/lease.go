package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// lease is a peer's permission to do what it asked for, while it lasts.
type lease struct {
	peer    *peer
	ctx     context.Context // of the request
	tokens  []moqt.Token    // of the request
	latest  []moqt.Token    // of the update that extended it last
	action  Action
	track   moqt.FullTrackName
	grant   Grant
	expired <-chan time.Time
	due     <-chan struct{} // closed when it has to be reviewed
}

// authorize asks whether the peer may do what a request is about.
func (p *peer) authorize(r *session.Request, a Action, track moqt.FullTrackName) (*lease, *moqt.RequestError) {
	l := &lease{peer: p, ctx: r.Context(), tokens: r.Tokens(), action: a, track: track}
	return l, l.extend(nil)
}

// review asks whether the permission still stands. It does if the Authorizer has no answer.
func (l *lease) review() *moqt.RequestError {
	refused := l.extend(l.latest)
	if refused != nil && refused.Code == moqt.RequestInternalError {
		return nil
	}
	return refused
}

// extend asks again, with the tokens of an update of the peer too.
func (l *lease) extend(latest []moqt.Token) *moqt.RequestError {
	p := l.peer
	l.due = p.relay.reviews.next() // before the answer, which may be out of date by then
	grant, err := p.relay.cfg.Authorizer.Authorize(l.ctx, AuthRequest{
		Action:    l.action,
		Namespace: l.track.Namespace,
		Name:      l.track.Name,
		Tokens:    slices.Concat(latest, l.tokens, p.setup.Tokens),
		Authority: p.setup.Authority,
		Path:      p.setup.Path,
		Remote:    p.conn.RemoteAddr(),
		Kind:      p.conn.Kind(),
	})
	if err != nil {
		return p.refusal(l.track, err)
	}
	l.latest, l.grant, l.expired = latest, grant, nil
	if !grant.Expires.IsZero() {
		l.expired = time.After(time.Until(grant.Expires))
	}
	return nil
}

// refusal is what the peer is told of an Authorizer's error.
func (p *peer) refusal(track moqt.FullTrackName, err error) *moqt.RequestError {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		p.relay.log.Error("cannot authorize", "remote", p.conn.RemoteAddr(), "track", track, "err", err)
		refused = &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "authorization failed"}
	}
	return refused
}

// expires is the EXPIRES parameter: nil if the permission lasts as long as the session.
func (l *lease) expires() *uint64 {
	if l.grant.Expires.IsZero() {
		return nil
	}
	ms := uint64(max(1, time.Until(l.grant.Expires).Milliseconds()))
	return &ms
}

// reviews has the permissions of all open requests reviewed.
type reviews struct {
	mu  sync.Mutex
	due chan struct{}
}

// next returns a channel that is closed when reviews are due the next time.
func (r *reviews) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due = make(chan struct{})
	}
	return r.due
}

// start makes reviews due.
func (r *reviews) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due != nil {
		close(r.due)
		r.due = nil
	}
}
