package relay

import (
	"sync"
	"time"

	"sluice/claim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// peer is a session with a publisher, a subscriber, or both.
type peer struct {
	relay     *Relay
	conn      transport.Conn
	session   *session.Session
	outlet    Outlet
	forwarder claim.ForwarderConn // nil: the fast path does not serve the peer
	setup     session.Peer        // set, with mu held, before any request is handled
	scope     string              // set before any request is handled
	id        uint64              // of the session, counted from 1
	since     time.Time
	turns     turns

	mu     sync.Mutex
	barred map[string]struct{} // tracks of which the peer's objects contradicted those of an earlier publisher
}

var _ session.Handler = (*peer)(nil)

// HandleSetup implements session.Handler.
func (p *peer) HandleSetup(_ *session.Session, setup session.Peer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setup = setup
	p.scope = p.relay.cfg.Scope(setup.Authority, setup.Path)
	return nil
}

// HandleGoaway implements session.Handler. The session refuses new requests of ours by itself, and the peer moves the rest: its
// subscriptions and publications end with the session, if they have not moved before.
func (p *peer) HandleGoaway(*session.Session, moqt.Goaway) {}

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

// keep serves an accepted request about namespaces until it ends: with its permission, if updates do not extend it. moved is called when
// the prefix was changed; it is nil for requests that have none. It reports whether the permission was withdrawn.
func (p *peer) keep(req *session.Request, permit *lease, moved func(moqt.Namespace)) (revoked bool) {
	for {
		select {
		case <-req.Context().Done():
			return false
		case <-permit.expired:
			req.Cancel(moqt.ResetExpiredAuthToken)
			return false
		case <-permit.due:
			if permit.review() != nil {
				req.Cancel(moqt.ResetExpiredAuthToken)
				return true
			}
		case u := <-req.Updates():
			if !p.keepUpdated(u, permit, moved) {
				return false
			}
		}
	}
}

// keepUpdated applies an update, and reports whether the request goes on.
func (p *peer) keepUpdated(u *session.Update, permit *lease, moved func(moqt.Namespace)) bool {
	prefix := u.Parameters.NamespacePrefix
	if prefix != nil {
		permit.track.Namespace = *prefix
	}
	if refused := permit.extend(u.Tokens); refused != nil {
		p.relay.metrics.refused(refused.Code)
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
