package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/hub"
	"sluice/relay/internal/names"
	"sluice/transport"
)

// UpstreamRelay is another relay, of any kind, at which this one subscribes to what no publisher of its own has. Its
// user dials it, and gives it one session after another: see [UpstreamRelay.NewSession]. Routes say which tracks it may
// have. Make one with [Neighbors.NewUpstreamRelay].
//
// For the upstream relay this one is a client like any other: the session is plain MoQT. For this relay it is a peer
// for which no quota counts. It feeds only subscribers of this process, and is fed only by publishers of this process:
// what came from one upstream relay is never sent to another one.
//
// A hub asks an upstream relay when subscribers of this process need it. It subscribes once for all of them, and until
// Config.Linger after the last one has left. If a session is lost, or its relay says that it goes away, the hub
// subscribes in the next session, or at the next relay of the route. While both bring the track, their objects are
// compared as objects of any two publishers are.
type UpstreamRelay struct {
	relay *Relay
	cfg   UpstreamRelayConfig
	name  string // the URL, without its query
	scope string
	warn  logs.Line

	// names are shown until some time after a session, so that subscribers do not see them go and come back.
	names *hub.Mirror

	mu      sync.Mutex
	session *Neighbor // for new requests; nil if there is none
	down    bool      // the last attempt to connect has failed
	begun   bool      // there was a session
}

// UpstreamRelayConfig is the configuration of an [UpstreamRelay]. The URL is required.
type UpstreamRelayConfig struct {
	// URL is that of the relay. Its authority and path decide about the scope, see [Config.Scope].
	URL string
	// Tokens authorize the sessions.
	Tokens []moqt.Token
	// Namespaces are prefixes. Subscribers that ask for namespaces or tracks below them (SUBSCRIBE_NAMESPACE,
	// SUBSCRIBE_TRACKS) are shown those of the relay, too, as far as the Routes name it for them. Default: none.
	Namespaces []moqt.Namespace
	// Announce are prefixes. The namespaces below them in which peers of this process publish are announced to the
	// relay (PUBLISH_NAMESPACE), which may then ask for their tracks. Default: none.
	Announce []moqt.Namespace
}

// newPeer returns a peer that stands for the relay, also without a session.
func (u *UpstreamRelay) newPeer() *peer {
	p := newPeer(u.relay, hub.Terms{From: hub.Elsewhere, URL: u.name}, u.mayAsk)
	p.upstream, p.Scope = u, u.scope
	return p
}

// Name returns the URL of the relay as logs and the status show it.
func (u *UpstreamRelay) Name() string { return u.name }

// SetDown says that an attempt to connect has failed. Until a session is established, subscribers do not wait for the
// relay. It may still be tried again.
func (u *UpstreamRelay) SetDown() {
	u.mu.Lock()
	changed := !u.down && u.session == nil
	u.down = u.down || changed
	u.mu.Unlock()
	if changed {
		u.relay.neighbors.Reroute()
	}
}

// current returns the session for new requests. If there is none, it reports whether there may be one soon.
func (u *UpstreamRelay) current() (p *peer, connecting bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.session; s != nil && s.peer.Session.Context().Err() == nil {
		return s.peer, false
	}
	return nil, !u.down
}

// begin makes a session take new requests.
func (u *UpstreamRelay) begin(n *Neighbor) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.session, u.down, u.begun = n, false, true
}

// end is the reverse of begin.
func (u *UpstreamRelay) end(n *Neighbor) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.session == n {
		u.session = nil
	}
}

// Status describes the session with the relay.
func (u *UpstreamRelay) Status() UpstreamStatus {
	p, connecting := u.current()
	if p == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		return UpstreamStatus{Down: !connecting, Lost: u.begun}
	}
	return UpstreamStatus{Connected: true, RTT: p.Conn.RTT(), Requests: p.Session.OpenRequests()}
}

// UpstreamStatus describes an upstream relay.
type UpstreamStatus struct {
	Connected bool
	Down      bool          // the last attempt to connect has failed
	Lost      bool          // there is no session any more, or it takes no new requests
	RTT       time.Duration // smoothed; 0 if there is no session
	Requests  int           // that are open in the session
}

// mayAsk returns why the relay must not ask for something, or nil. It may publish tracks, as it was asked to.
func (u *UpstreamRelay) mayAsk(_ context.Context, a Action, track moqt.FullTrackName) *moqt.RequestError {
	if a == ActionPublish || u.announces(track.Namespace) {
		return nil
	}
	return &moqt.RequestError{
		Code: moqt.RequestUnauthorized, Reason: "nothing in the namespace was announced in this session",
	}
}

// isRouteFor reports whether the routes lead to the relay for a place.
func (u *UpstreamRelay) isRouteFor(at names.Place) bool {
	return slices.Contains(u.relay.neighbors.upstreamsOf(at), u)
}

// announces reports whether the upstream relay is told of a namespace of this process.
func (u *UpstreamRelay) announces(ns moqt.Namespace) bool {
	return slices.ContainsFunc(u.cfg.Announce, ns.HasPrefix)
}

// NewSession makes a session of a connection to the relay, or to one that it has named in GOAWAY. The caller has dialed
// it, and has to call [Neighbor.Run].
func (u *UpstreamRelay) NewSession(conn transport.Conn) (*Neighbor, error) {
	r, p := u.relay, u.newPeer()
	n, err := newNeighbor(p, conn, session.Config{
		Role: session.Client, Authority: conn.Authority(), Path: conn.Path(), Tokens: u.cfg.Tokens,
		HopID: r.cfg.Session.HopID, Strict: r.cfg.Session.Strict, Refused: r.metrics.refused,
		Limits: relayLimits, Logger: r.log.With("upstream", u.name),
	}, u.names, nil)
	if err != nil {
		return nil, err
	}
	p.Forwarder = forwarderOf(conn, p.Session.Version())
	return n, r.sessions.addNeighbor(n)
}
