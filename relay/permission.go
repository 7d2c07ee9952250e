package relay

import (
	"context"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
)

// permission allows a peer what its request asks for, for as long as the Authorizer says.
type permission struct {
	*lease
	peer    *peer
	request *session.Request // whose tokens count
	watch   *session.Request // the SUBSCRIBE_TRACKS whose tokens count too, if the request is an offer for it
	action  Action
	payers  charge.Payers // for what the request uses
	updated func()        // called after an update was accepted; may be nil

	// Guarded by lease.mu.
	track  moqt.FullTrackName
	latest []moqt.Token // of an update that was allowed; nil: the request's
}

// extend asks the Authorizer again, because of an update of the peer if it has tokens.
func (m *permission) extend(update []moqt.Token) *moqt.RequestError {
	if m.peer.mayAsk != nil {
		return nil
	}
	refused := m.obtain(m.request.Context(), update)
	if refused == nil && len(update) > 0 {
		m.lease.mu.Lock()
		defer m.lease.mu.Unlock()
		m.latest = update
	}
	return refused
}

// question returns what the Authorizer is asked.
func (m *permission) question(update []moqt.Token) AuthRequest {
	p := m.peer
	m.lease.mu.Lock()
	track, latest := m.track, m.latest
	m.lease.mu.Unlock()
	if len(update) == 0 {
		update = latest
	}
	return AuthRequest{
		Action:    m.action,
		Namespace: track.Namespace,
		Name:      track.Name,
		Tokens:    m.tokens(update),
		Authority: p.setup.Authority,
		Path:      p.setup.Path,
		Remote:    p.remote(),
		Kind:      p.conn.Kind(),
	}
}

// charge charges a request to the account of the peer's address, and to the relay. It is called before the Authorizer
// is asked, which may cost more than the request itself.
func (m *permission) charge(r *session.Request) *moqt.RequestError {
	m.payers = charge.Payers{m.peer.address}
	if refused := m.chargeTo(m.peer.address, r); refused != nil {
		return refused
	}
	return m.peer.relay.accounts.ChargeRelay(r.Context())
}

// chargeToken charges a request to the account of the token that allowed it.
func (m *permission) chargeToken(r *session.Request) *moqt.RequestError {
	subject := m.current().Subject
	if subject == "" {
		return nil
	}
	a, refused := m.peer.token(subject)
	if refused != nil {
		return refused
	}
	m.payers = append(m.payers, a)
	if !a.Allow() {
		return a.Refusal(charge.RequestRate)
	}
	return m.chargeTo(a, r)
}

func (m *permission) chargeTo(a *charge.Account, r *session.Request) *moqt.RequestError {
	return a.Charge(r.Context(), m.action == ActionSubscribe || m.action == ActionFetch, usesOf(m.action))
}

// tokens returns what authorizes the request: its tokens, or instead those of an update, and the tokens of SETUP.
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

// hold watches the permission until the request ends. lost is called if the permission ends before.
func (m *permission) hold(lost func(why *moqt.RequestError)) {
	if m.peer == nil || m.peer.mayAsk != nil {
		return
	}
	m.peer.standing.add(m)
	context.AfterFunc(m.request.Context(), func() { m.peer.standing.done(m) })
	m.begin(func(why *moqt.RequestError) {
		lost(why)
		m.peer.standing.lose(m, why)
	})
}

// cancel ends the request, because its permission has ended.
func (m *permission) cancel(why *moqt.RequestError) {
	if m.request.Reject(why) != nil { // it was answered
		m.request.Cancel(moqt.ResetExpiredAuthToken)
	}
}

// expires returns the EXPIRES parameter: nil if the permission lasts as long as the session.
func (m *permission) expires() *uint64 {
	expires := m.current().Expires
	if expires.IsZero() {
		return nil
	}
	ms := uint64(max(1, time.Until(expires).Milliseconds()))
	return &ms
}

// startFunc makes a prefix of an update effective: it calls accept, unless it returns why the update is refused.
type startFunc func(prefix moqt.Namespace, accept func() error) *moqt.RequestError

// keep answers the updates of an accepted request about namespaces until it ends. start is for requests that have a
// prefix.
func (m *permission) keep(start startFunc) {
	for {
		select {
		case <-m.request.Context().Done():
			return
		case u := <-m.request.Updates():
			m.update(u, start)
		}
	}
}

// update applies a REQUEST_UPDATE.
func (m *permission) update(u *session.Update, start startFunc) {
	accept := func() error { return u.OK(moqt.Parameters{}) } // fails if the request is over
	prefix, before := u.Parameters.NamespacePrefix, m.track.Namespace
	if prefix != nil {
		m.setNamespace(*prefix)
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
		m.setNamespace(before)
		m.peer.relay.metrics.refused(refused.Code)
		_ = u.Reject(refused) // fails only if the request is over
	}
}

func (m *permission) setNamespace(ns moqt.Namespace) {
	m.lease.mu.Lock()
	defer m.lease.mu.Unlock()
	m.track.Namespace = ns
}

// usesOf returns what a request of an action uses while it is open.
func usesOf(a Action) []charge.Resource {
	switch a {
	case ActionPublish, ActionSubscribe:
		return []charge.Resource{charge.RequestsOpen, charge.SubscriptionsOpen}
	case ActionPublishNamespace, ActionSubscribeNamespace, ActionSubscribeTracks:
		return []charge.Resource{charge.RequestsOpen, charge.NamespacesOpen}
	}
	return []charge.Resource{charge.RequestsOpen}
}
