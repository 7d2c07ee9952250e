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

// reviewRetry is how long after a review without an answer the Authorizer is asked again. An Authorizer that is down is
// not asked all the time.
const reviewRetry = 10 * time.Second

// minReview is the shortest time between the reviews that an Authorizer asks for in its Grants, whatever it says: a
// review whose time has passed already would be repeated at once, again and again.
const minReview = time.Second

// permission allows a peer what its request asks for, for as long as the Authorizer says.
type permission struct {
	peer    *peer
	ctx     context.Context // of the request
	tokens  []moqt.Token    // of the request
	latest  []moqt.Token    // of the update that extended it last
	action  Action
	track   moqt.FullTrackName
	grant   Grant
	expired <-chan time.Time
	due     <-chan struct{}  // closed when all permissions have to be reviewed
	stale   <-chan time.Time // sends when this one has to be reviewed
}

// authorize asks whether the peer may do what a request is about.
func (p *peer) authorize(r *session.Request, a Action, track moqt.FullTrackName) (*permission, *moqt.RequestError) {
	m := &permission{peer: p, ctx: r.Context(), tokens: r.Tokens(), action: a, track: track}
	return m, m.extend(nil)
}

// review asks whether the permission still stands. It does if the Authorizer has no answer.
func (m *permission) review() *moqt.RequestError {
	refused := m.extend(m.latest)
	if refused != nil && isNoAnswer(refused) {
		m.stale = time.After(reviewRetry)
		return nil
	}
	return refused
}

// isNoAnswer reports whether the Authorizer has failed to decide, so that an open request goes on.
func isNoAnswer(e *moqt.RequestError) bool {
	return e.Code == moqt.RequestInternalError || e.Code == moqt.RequestExcessiveLoad
}

// extend asks the Authorizer again, with the tokens of an update of the peer too.
func (m *permission) extend(latest []moqt.Token) *moqt.RequestError {
	p := m.peer
	m.due = p.relay.reviews.next() // before the answer, which may be out of date by then
	grant, err := p.relay.cfg.Authorizer.Authorize(m.ctx, AuthRequest{
		Action:    m.action,
		Namespace: m.track.Namespace,
		Name:      m.track.Name,
		Tokens:    slices.Concat(latest, m.tokens, p.setup.Tokens),
		Authority: p.setup.Authority,
		Path:      p.setup.Path,
		Remote:    p.remote(),
		Kind:      p.conn.Kind(),
	})
	if err != nil {
		return m.refusal(err)
	}
	m.latest, m.grant, m.expired, m.stale = latest, grant, nil, nil
	if !grant.Expires.IsZero() {
		m.expired = time.After(time.Until(grant.Expires))
	}
	if !grant.Review.IsZero() {
		m.stale = time.After(max(minReview, time.Until(grant.Review)))
	}
	return nil
}

// refusal returns the error that the peer gets for an Authorizer's error.
func (m *permission) refusal(err error) *moqt.RequestError {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		m.peer.relay.log.Error("cannot authorize", "remote", m.peer.remote(), "track", m.track, "err", err)
		refused = &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "authorization failed"}
	}
	return refused
}

// expires returns the EXPIRES parameter: nil if the permission lasts as long as the session.
func (m *permission) expires() *uint64 {
	if m.grant.Expires.IsZero() {
		return nil
	}
	ms := uint64(max(1, time.Until(m.grant.Expires).Milliseconds()))
	return &ms
}

// keep serves an accepted request about namespaces until it ends, or until the permission does, if updates do not
// extend it. moved is called when the prefix was changed; it is nil for requests that have none. keep reports whether
// the permission was withdrawn.
func (m *permission) keep(req *session.Request, moved func(moqt.Namespace)) (withdrawn bool) {
	for !withdrawn {
		select {
		case <-req.Context().Done():
			return false
		case <-m.expired:
			req.Cancel(moqt.ResetExpiredAuthToken)
			return false
		case <-m.due:
			withdrawn = m.review() != nil
		case <-m.stale:
			withdrawn = m.review() != nil
		case u := <-req.Updates():
			if !m.update(u, moved) {
				return false
			}
		}
	}
	req.Cancel(moqt.ResetExpiredAuthToken)
	return true
}

// update applies a REQUEST_UPDATE, and reports whether the request goes on.
func (m *permission) update(u *session.Update, moved func(moqt.Namespace)) bool {
	prefix := u.Parameters.NamespacePrefix
	if prefix != nil {
		m.track.Namespace = *prefix
	}
	if refused := m.extend(u.Tokens); refused != nil {
		m.peer.relay.metrics.refused(refused.Code)
		_ = u.Reject(refused) // fails only if the request is over
		return false
	}
	if u.OK(moqt.Parameters{}) != nil {
		return false
	}
	if prefix != nil && moved != nil {
		moved(*prefix)
	}
	return true
}

// reviews makes all open requests review their permissions.
type reviews struct {
	mu  sync.Mutex
	due chan struct{}
}

// next returns a channel that is closed when the next reviews are due.
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
