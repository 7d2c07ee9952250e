package relay

import (
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
	request *session.Request // whose tokens count
	watch   *session.Request // the SUBSCRIBE_TRACKS whose tokens count too, if the request is an offer for it
	action  Action
	track   moqt.FullTrackName
	grant   Grant
	payers  payers // for what the request uses
	updated func() // called after an update was accepted; may be nil
	expired <-chan time.Time
	due     <-chan struct{}  // closed when all permissions have to be reviewed
	stale   <-chan time.Time // sends when this one has to be reviewed
}

// authorize asks whether the peer may do what a request is about, and charges the request to its quotas.
func (p *peer) authorize(r *session.Request, a Action, track moqt.FullTrackName) (*permission, *moqt.RequestError) {
	m := &permission{peer: p, request: r, action: a, track: track}
	if !p.direct() || p.own {
		return m, p.mayAsk(a, track.Namespace)
	}
	refused := m.charge(r)
	if refused == nil {
		refused = m.extend(nil)
	}
	if refused == nil {
		refused = m.chargeToken(r)
	}
	return m, refused
}

// review asks whether the permission still stands. It does if the Authorizer has no answer.
func (m *permission) review() *moqt.RequestError {
	refused := m.extend(nil)
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

// extend asks the Authorizer again, because of an update of the peer if it has tokens.
func (m *permission) extend(update []moqt.Token) *moqt.RequestError {
	p := m.peer
	if !p.direct() || p.own {
		return nil // see mayAsk
	}
	m.due = p.relay.reviews.next() // before the answer, which may be out of date by then
	grant, err := p.relay.cfg.Authorizer.Authorize(m.request.Context(), AuthRequest{
		Action:    m.action,
		Namespace: m.track.Namespace,
		Name:      m.track.Name,
		Tokens:    m.tokens(update),
		Authority: p.setup.Authority,
		Path:      p.setup.Path,
		Remote:    p.remote(),
		Kind:      p.conn.Kind(),
	})
	if err != nil {
		return m.refusal(err)
	}
	m.grant, m.expired, m.stale = grant, nil, nil
	if !grant.Expires.IsZero() {
		m.expired = time.After(time.Until(grant.Expires))
	}
	if !grant.Review.IsZero() {
		m.stale = time.After(max(minReview, time.Until(grant.Review)))
	}
	return nil
}

// tokens returns what authorizes the request: its tokens, or instead those of an update that is about to be accepted,
// and the tokens of SETUP.
func (m *permission) tokens(update []moqt.Token) []moqt.Token {
	own := update
	if len(own) == 0 {
		own = m.request.Tokens()
	}
	if m.watch != nil {
		own = slices.Concat(own, m.watch.Tokens())
	}
	return slices.Concat(own, m.peer.setup.Tokens)
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

// startFunc makes a prefix of an update effective: it calls accept, unless it returns why the update is refused.
type startFunc func(prefix moqt.Namespace, accept func() error) *moqt.RequestError

// keep serves an accepted request about namespaces until it ends, or until the permission does, if updates do not
// extend it. start is for requests that have a prefix. keep reports whether the permission was withdrawn.
func (m *permission) keep(req *session.Request, start startFunc) (withdrawn bool) {
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
			if !m.update(u, start) {
				return false
			}
		}
	}
	req.Cancel(moqt.ResetExpiredAuthToken)
	return true
}

// update applies a REQUEST_UPDATE, and reports whether the request goes on.
func (m *permission) update(u *session.Update, start startFunc) bool {
	accept := func() error { return u.OK(moqt.Parameters{}) } // fails if the request is over
	prefix := u.Parameters.NamespacePrefix
	if prefix != nil {
		m.track.Namespace = *prefix
	}
	refused := m.extend(u.Tokens)
	switch {
	case refused != nil:
	case prefix != nil:
		refused = start(*prefix, accept)
	case accept() == nil && m.updated != nil:
		m.updated()
	}
	if refused != nil {
		m.peer.relay.metrics.refused(refused.Code)
		_ = u.Reject(refused) // fails only if the request is over
	}
	return m.request.Context().Err() == nil
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
