package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/hub"
	"sluice/relay/internal/lease"
)

// permission allows a peer what its request asks for, for as long as the Authorizer says.
type permission struct {
	*lease.Lease
	peer    *peer
	request *session.Request // whose tokens count
	watch   *session.Request // the SUBSCRIBE_TRACKS whose tokens count too, if the request is an offer for it
	action  Action
	payers  charge.Payers // for what the request uses
	updated func()        // called after an update was accepted; may be nil

	mu     sync.Mutex // guards what follows
	track  moqt.FullTrackName
	latest []moqt.Token // of an update that was allowed; nil: the request's
}

// Extend implements hub.Permit.
func (m *permission) Extend(update []moqt.Token) *moqt.RequestError {
	if m.peer.mayAsk != nil {
		return nil
	}
	refused := m.Obtain(m.request.Context(), update)
	if refused == nil && len(update) > 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.latest = update
	}
	return refused
}

// ask asks the Authorizer.
func (m *permission) ask(ctx context.Context, update []moqt.Token) (Grant, *moqt.RequestError) {
	p := m.peer
	m.mu.Lock()
	track, latest := m.track, m.latest
	m.mu.Unlock()
	if len(update) == 0 {
		update = latest
	}
	return p.relay.authorize(ctx, AuthRequest{
		Action: m.action, Namespace: track.Namespace, Name: track.Name, Tokens: m.tokens(update),
		Authority: p.Setup.Authority, Path: p.Setup.Path, Remote: p.Remote(), Kind: p.Conn.Kind(),
	})
}

// obtain charges a request to the account of an address, asks the Authorizer, and charges the request to the account of
// the token that allowed it. It returns these accounts. To ask the Authorizer may cost more than the request itself.
func obtain(
	ctx context.Context, all *charge.Accounts, from *charge.Purse, a Action, l *lease.Lease,
	ask func() *moqt.RequestError,
) (charge.Payers, *moqt.RequestError) {
	payers, receives := charge.Payers{from.Address}, a == ActionSubscribe || a == ActionFetch
	refused := from.Address.Charge(ctx, receives, usesOf(a))
	if refused == nil {
		refused = all.ChargeRelay(ctx)
	}
	if refused == nil {
		refused = ask()
	}
	subject := l.Current().Subject
	if refused != nil || subject == "" {
		return payers, refused
	}
	token, refused := from.Token(all, subject)
	if refused != nil {
		return payers, refused
	}
	if !token.Allow() {
		return payers, token.Refusal(charge.RequestRate)
	}
	return append(payers, token), token.Charge(ctx, receives, usesOf(a))
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
	return slices.Concat(own, m.peer.Setup.Tokens)
}

// Hold implements hub.Permit.
func (m *permission) Hold(lost func(why *moqt.RequestError)) {
	if m.peer.mayAsk != nil {
		return
	}
	m.peer.standing.add(m)
	context.AfterFunc(m.request.Context(), func() { m.peer.standing.done(m) })
	m.Begin(func(why *moqt.RequestError) {
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

// Expires implements hub.Permit.
func (m *permission) Expires() *uint64 {
	expires := m.Current().Expires
	if expires.IsZero() {
		return nil
	}
	ms := uint64(max(1, time.Until(expires).Milliseconds()))
	return &ms
}

// Payers implements hub.Permit.
func (m *permission) Payers() charge.Payers { return m.payers }

// ForOffer implements hub.Permit. The permission lasts for as long as the peer may have the tracks of the prefix.
func (m *permission) ForOffer(offer *session.Request, prefix moqt.Namespace) hub.Permit {
	o := &permission{
		peer: m.peer, request: offer, watch: m.request, action: ActionSubscribeTracks,
		track: moqt.FullTrackName{Namespace: prefix}, payers: m.payers,
	}
	o.Lease = m.Derive(o.ask)
	return o
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
	refused := m.Extend(u.Tokens)
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
	m.mu.Lock()
	defer m.mu.Unlock()
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
