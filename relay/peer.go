package relay

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/hub"
	"sluice/transport"
)

// peer is a session with a publisher, a subscriber, or both; or with a neighbour: see hub.Terms. Its requests arrive at
// the type requests.
type peer struct {
	hub.Peer // as hubs know it
	relay    *Relay
	upstream *UpstreamRelay // that this relay has dialed; nil for all others
	matches  *rate.Limiter  // of namespaces and tracks, by prefixes: see admitMatches
	standing standing
	since    time.Time // set by sessions.add
	// mayAsk returns why the peer must not do something, or nil. If there is none, the Authorizer decides.
	mayAsk permissionFunc

	mu    sync.Mutex
	begun bool // its SETUP has come
}

type permissionFunc func(context.Context, Action, moqt.FullTrackName) *moqt.RequestError

// permitAll is for another process, which has authorized those for whom it asks.
func permitAll(context.Context, Action, moqt.FullTrackName) *moqt.RequestError { return nil }

// newPeer returns a peer without a session.
func newPeer(r *Relay, t hub.Terms, mayAsk permissionFunc) *peer {
	p := &peer{Peer: hub.Peer{Terms: t, Directory: r.directory}, relay: r, mayAsk: mayAsk}
	p.Owner, p.standing.peer = p, p
	p.matches = rate.NewLimiter(rate.Limit(r.cfg.MatchRate), r.cfg.MaxMatches)
	return p
}

// accept makes a session of a connection that a peer has opened.
func (p *peer) accept(conn transport.Conn, address *charge.Account) error {
	r := p.relay
	p.Open(address)
	cfg := r.cfg.Session
	cfg.Role, cfg.Handler, cfg.Logger = session.Server, &requests{p}, r.log
	if r.accounts.IsExempt(transport.SourceOf(conn.RemoteAddr())) {
		cfg.Limits = relayLimits // it may be a relay
		cfg.Limits.MaxFilterRanges = r.cfg.Session.Limits.MaxFilterRanges
	}
	cfg.Refused, cfg.Pacer = r.metrics.refused, address
	if err := p.connect(conn, cfg); err != nil {
		return err
	}
	p.Forwarder = forwarderOf(conn, p.Session.Version())
	return nil
}

// connect makes a session of a connection.
func (p *peer) connect(conn transport.Conn, cfg session.Config) (err error) {
	if p.Sender, err = p.relay.senderOf(conn); err != nil {
		return err
	}
	p.Conn, p.QLog = conn, qlog.New(conn.Qlog())
	p.Session, err = session.New(conn, cfg)
	return err
}

// begin records the SETUP of a peer, which completes its terms.
func (p *peer) begin(setup session.Peer, scope string, reach hub.Distance) {
	p.mu.Lock()
	p.Setup, p.begun, p.Scope, p.Reach, p.Hops = setup, true, scope, reach, setup.Hops != moqt.NoHops
	p.mu.Unlock()
	p.emit(EventSessionStart, nil, nil)
}

// emit reports an event of a peer. It may be called with locks held, but not with p.mu.
func (p *peer) emit(t EventType, track *moqt.FullTrackName, cause error) {
	report := p.relay.cfg.OnEvent
	if report == nil || p.Hidden {
		return
	}
	p.mu.Lock()
	authority := p.Setup.Authority
	p.mu.Unlock()
	e := Event{
		Type: t, Time: time.Now(), Session: p.ID, Remote: p.Remote().String(), Upstream: p.URL,
		Transport: p.Conn.Kind().String(), Authority: authority, Path: p.path(), Track: track,
	}
	if cause != nil {
		e.Reason = cause.Error()
	}
	report(e)
}

// Publishes implements hub.Owner.
func (p *peer) Publishes(track *moqt.FullTrackName, on bool, cause error) {
	if on {
		p.emit(EventPublishStart, track, nil)
	} else {
		p.emit(EventPublishStop, track, cause)
	}
}

// Subscribes implements hub.Owner.
func (p *peer) Subscribes(track *moqt.FullTrackName, on bool) {
	if on {
		p.emit(EventFirstSubscriber, track, nil)
	} else {
		p.emit(EventLastSubscriber, track, nil)
	}
}

// emitEnd reports the end of the session, if its beginning was reported.
func (p *peer) emitEnd(cause error) {
	p.mu.Lock()
	begun := p.begun
	p.mu.Unlock()
	if begun {
		p.emit(EventSessionEnd, nil, cause)
	}
}

// implementation returns the peer's MOQT_IMPLEMENTATION, if its SETUP has arrived.
func (p *peer) implementation() (name string, ok bool) {
	select {
	case <-p.Session.Ready():
	default:
		return "", false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Setup.Implementation, true
}

// minRTT returns the shortest round-trip time of packets with media. Without media it is the smoothed one of others:
// QUIC has measured the handshake at least.
func (p *peer) minRTT() time.Duration {
	if m, ok := p.Conn.Hooks().(media.Hooks); ok {
		if rtt := m.Stats().MinRTT; rtt > 0 {
			return rtt
		}
	}
	return p.Conn.RTT()
}

// path returns the URL's path, without the query: WebTransport sends it in the CONNECT request, raw QUIC in SETUP.
func (p *peer) path() string {
	path := p.Conn.Path()
	if path == "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		path = p.Setup.Path
	}
	return transport.WithoutQuery(path)
}

// TakesRequests implements hub.Owner.
func (p *peer) TakesRequests() bool {
	if p.upstream == nil {
		return true
	}
	current, _ := p.upstream.current()
	return current == p
}

// leave gives back the peer's session. The last bytes that it was sent count, too: otherwise short sessions were free.
func (p *peer) leave() {
	p.standing.close()
	p.Sent(p.relay.sentOn(p.Conn))
	p.Payers().Give(charge.SessionsOpen)
}

// admitMatches refuses a prefix with more values than a request, or at the moment the session, may match. All other
// requests to the relay wait while it looks at these values.
func (p *peer) admitMatches(n int) *moqt.RequestError {
	switch {
	case p.Hidden:
		return nil
	case n > p.relay.cfg.MaxMatches:
		return errTooManyMatches
	case !p.Address.AllowMatches(n):
		return p.Address.Refusal(charge.RequestRate)
	case !p.matches.AllowN(time.Now(), min(n, p.matches.Burst())):
		return errTooOften()
	}
	return nil
}

// awaitMatches waits until the peer may match n more values. It is for requests that must not be refused because of
// what others publish below their namespace.
func (p *peer) awaitMatches(ctx context.Context, n int) error {
	return p.matches.WaitN(ctx, min(n, p.matches.Burst()))
}

// authorize asks whether the peer may do what a request is about, and charges the request to its quotas.
func (p *peer) authorize(
	r *session.Request, a Action, track moqt.FullTrackName,
) (m *permission, refused *moqt.RequestError) {
	m = &permission{peer: p, request: r, action: a, track: track}
	m.Lease = p.relay.leases.New(p.Session.Context(), m.ask)
	if p.mayAsk != nil {
		return m, p.mayAsk(r.Context(), a, track)
	}
	ask := func() *moqt.RequestError { return m.Extend(nil) }
	m.payers, refused = obtain(r.Context(), p.relay.accounts, &p.Purse, a, m.Lease, ask)
	return m, refused
}
