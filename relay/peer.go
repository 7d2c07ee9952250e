package relay

import (
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// peer is a session with a publisher, a subscriber, or both.
type peer struct {
	relay   *Relay
	conn    transport.Conn
	session *session.Session
	outlet  Outlet
	second  media.SecondConn // nil: the fast path does not serve the peer
	setup   session.Peer     // set, with mu held, before any request is handled
	id      uint64           // of the session, counted from 1
	since   time.Time

	mu     sync.Mutex
	barred map[string]struct{} // tracks of which the peer's objects contradicted those of an earlier publisher
}

var _ session.Handler = (*peer)(nil)

// HandleSetup implements session.Handler.
func (p *peer) HandleSetup(_ *session.Session, setup session.Peer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setup = setup
	return nil
}

// HandleGoaway implements session.Handler. The session refuses new requests of ours by itself, and the peer moves the rest: its
// subscriptions and publications end with the session, if they have not moved before.
func (p *peer) HandleGoaway(*session.Session, moqt.Goaway) {}

// authorize asks whether the peer may do what a request, or an update with further tokens, is about.
func (p *peer) authorize(r *session.Request, a Action, track moqt.FullTrackName, tokens ...moqt.Token) (Grant, *moqt.RequestError) {
	grant, err := p.relay.cfg.Authorizer.Authorize(r.Context(), AuthRequest{
		Action:    a,
		Namespace: track.Namespace,
		Name:      track.Name,
		Tokens:    slices.Concat(tokens, r.Tokens(), p.setup.Tokens),
		Authority: p.setup.Authority,
		Path:      p.setup.Path,
		Remote:    p.conn.RemoteAddr(),
		Kind:      p.conn.Kind(),
	})
	if err == nil {
		return grant, nil
	}
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		p.relay.log.Error("cannot authorize", "remote", p.conn.RemoteAddr(), "track", track, "err", err)
		refused = &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "authorization failed"}
	}
	return Grant{}, refused
}

func (p *peer) bar(h *hub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.barred == nil {
		p.barred = make(map[string]struct{})
	}
	p.barred[h.name.Key()] = struct{}{}
}

func (p *peer) isBarred(h *hub) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, barred := p.barred[h.name.Key()]
	return barred
}

// reject refuses a request of the peer.
func (p *peer) reject(r *session.Request, e *moqt.RequestError) {
	p.relay.metrics.refused(e.Code)
	_ = r.Reject(e) // fails only if the request is over
}

// expiry is a timer for a Grant.
type expiry struct{ timer *time.Timer }

func newExpiry(g Grant) expiry {
	e := expiry{time.NewTimer(0)}
	e.reset(g)
	return e
}

func (e expiry) reset(g Grant) {
	e.timer.Stop()
	if !g.Expires.IsZero() {
		e.timer.Reset(time.Until(g.Expires))
	}
}

// expires is the EXPIRES parameter for a Grant: nil if it does not expire.
func (g Grant) expires() *uint64 {
	if g.Expires.IsZero() {
		return nil
	}
	ms := uint64(max(1, time.Until(g.Expires).Milliseconds()))
	return &ms
}

// keep serves an accepted request about namespaces until it ends: with its grant, if updates do not extend it. moved is called when the
// prefix was changed; it is nil for requests that have none.
func (p *peer) keep(req *session.Request, a Action, name moqt.FullTrackName, grant Grant, moved func(moqt.Namespace)) {
	expiry := newExpiry(grant)
	defer expiry.timer.Stop()
	for {
		select {
		case <-req.Context().Done():
			return
		case <-expiry.timer.C:
			req.Cancel(moqt.ResetExpiredAuthToken)
			return
		case u := <-req.Updates():
			prefix := u.Parameters.NamespacePrefix
			if prefix != nil {
				name.Namespace = *prefix
			}
			grant, refused := p.authorize(req, a, name, u.Tokens...)
			if refused != nil {
				p.relay.metrics.refused(refused.Code)
				_ = u.Reject(refused) // fails only if the request is over
				return
			}
			if u.OK(moqt.Parameters{}) != nil {
				return
			}
			expiry.reset(grant)
			if prefix != nil && moved != nil {
				moved(*prefix)
			}
		}
	}
}
