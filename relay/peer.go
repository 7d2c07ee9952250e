package relay

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sluice/claim"
	"sluice/clock"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/names"
	"sluice/transport"
)

// sluice is the MOQT_IMPLEMENTATION of this program.
const sluice = "sluice"

// peer is a session with a publisher, a subscriber, or both; or with a neighbour: see terms. Its requests arrive at the
// type requests.
type peer struct {
	terms     // what differs between kinds of peers
	relay     *Relay
	conn      transport.Conn
	session   *session.Session
	qlog      *qlog.Recorder // nil: the connection has no qlog
	sender    mediaSender
	forwarder claim.ForwarderConn // nil: the fast path does not serve the peer
	upstream  *UpstreamRelay      // that this relay has dialed; nil for all others
	turns     fetch.Turns         // order the responses to FETCH
	matches   *rate.Limiter       // of namespaces and tracks, by prefixes: see mayMatch
	address   *charge.Account     // of the peer's source address
	sets      renditionSets
	standing  standing

	unpausable atomic.Bool // it has ended a subscription instead of changing its Forward State

	// Set by sessions.add.
	id    uint64 // of the session, counted from 1
	since time.Time

	// Set, with mu held, before any request is handled.
	setup session.Peer
	scope string
	begun bool

	mu       sync.Mutex
	charged  uint64              // bytes of media that the accounts were charged for
	accounts charge.Payers       // address, and those of the tokens that the peer has used
	excluded map[string]struct{} // tracks that the peer may not publish any more: see hub.malformed
}

func newPeer(r *Relay, conn transport.Conn, address *charge.Account, mayAsk permissionFunc) (*peer, error) {
	sender, err := r.senderOf(conn)
	if err != nil {
		return nil, err
	}
	p := &peer{
		terms: termsOfPeers(mayAsk), relay: r, conn: conn, sender: sender, qlog: qlog.New(conn.Qlog()),
		address: address, accounts: charge.Payers{address},
	}
	p.matches = rate.NewLimiter(rate.Limit(r.cfg.MatchRate), r.cfg.MaxMatches)
	p.standing.peer = p
	cfg := r.cfg.Session
	cfg.Role, cfg.Handler, cfg.Logger = session.Server, &requests{p}, r.log
	if r.accounts.IsExempt(transport.SourceOf(conn.RemoteAddr())) {
		cfg.Limits = relayLimits // it may be a relay
		cfg.Limits.MaxFilterRanges = r.cfg.Session.Limits.MaxFilterRanges
	}
	cfg.Refused, cfg.Pacer = r.metrics.refused, address
	if p.session, err = session.New(conn, cfg); err != nil {
		return nil, err
	}
	p.forwarder = forwarderOf(conn, p.session.Version())
	return p, nil
}

// begin records the SETUP of a peer, which completes its terms.
func (p *peer) begin(setup session.Peer, scope string, reach distance) {
	p.mu.Lock()
	p.setup, p.begun, p.scope, p.reach, p.hops = setup, true, scope, reach, setup.Hops != moqt.NoHops
	if p.hops {
		p.cost = setup.Cost
	}
	p.mu.Unlock()
	p.emit(EventSessionStart, nil, nil)
}

// emit reports an event of a peer. It may be called with locks held, but not with p.mu.
func (p *peer) emit(t EventType, track *moqt.FullTrackName, cause error) {
	report := p.relay.cfg.OnEvent
	if report == nil || p.hidden {
		return
	}
	p.mu.Lock()
	authority := p.setup.Authority
	p.mu.Unlock()
	e := Event{
		Type: t, Time: time.Now(), Session: p.id, Remote: p.remote().String(), Upstream: p.url,
		Transport: p.conn.Kind().String(), Authority: authority, Path: p.path(), Track: track,
	}
	if cause != nil {
		e.Reason = cause.Error()
	}
	report(e)
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

// Naming implements names.Peer.
func (p *peer) Naming() names.Naming { return names.Naming{Scope: p.scope, All: p.scoped} }

// place is where a namespace that the peer names is in the relay's trees: below the peer's scope. It is empty if the
// peer has to name a scope, and does not.
func (p *peer) place(ns moqt.Namespace) place { return p.Naming().Place(ns) }

// nameOf is the name by which the peer knows the track of a hub.
func (p *peer) nameOf(h *hub) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: p.Naming().Namespace(h.place), Name: h.name.Name}
}

// implementation returns the peer's MOQT_IMPLEMENTATION, if its SETUP has arrived.
func (p *peer) implementation() (name string, ok bool) {
	select {
	case <-p.session.Ready():
	default:
		return "", false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setup.Implementation, true
}

// isSluice reports whether the peer is a Sluice, which sends the current group from its start to a subscriber that asks
// for all objects. The draft leaves that open (§5.1.2).
func (p *peer) isSluice() bool {
	name, _ := p.implementation()
	return name == sluice
}

// lastReceived returns when the last packet of the peer came, or 0 if that is not measured.
func (p *peer) lastReceived() clock.Time {
	m, ok := p.conn.Hooks().(media.Hooks)
	if !ok {
		return 0
	}
	return m.LastReceived()
}

// minRTT returns the shortest round-trip time of packets with media. Without media it is the smoothed one of others:
// QUIC has measured the handshake at least.
func (p *peer) minRTT() time.Duration {
	if m, ok := p.conn.Hooks().(media.Hooks); ok {
		if rtt := m.Stats().MinRTT; rtt > 0 {
			return rtt
		}
	}
	return p.conn.RTT()
}

func (p *peer) remote() net.Addr { return p.conn.RemoteAddr() }

// path returns the URL's path, without the query: WebTransport sends it in the CONNECT request, raw QUIC in SETUP.
func (p *peer) path() string {
	path := p.conn.Path()
	if path == "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		path = p.setup.Path
	}
	return transport.WithoutQuery(path)
}

// reject refuses a request of the peer.
func (p *peer) reject(r *session.Request, e *moqt.RequestError) {
	if !p.hidden {
		p.relay.metrics.refused(e.Code)
	}
	_ = r.Reject(e) // fails only if the request is over
}

// Serves implements names.Peer: it reports whether the peer may bring a track for another one.
func (p *peer) Serves(other *peer) bool { return p.from <= other.reach }

// takesRequests reports whether the session is the one for new requests, as far as there may be others.
func (p *peer) takesRequests() bool {
	if p.upstream == nil {
		return true
	}
	current, _ := p.upstream.current()
	return current == p
}

// hopID returns the Hop ID of the peer, or 0 if it has none.
func (p *peer) hopID() uint64 { return p.setup.HopID }

// Takes implements names.Peer: it reports whether a peer may get what has come through a path.
func (p *peer) Takes(path moqt.HopPath) bool {
	if !p.hops {
		return true
	}
	_, err := path.Through(p.relay.cfg.Session.HopID)
	return err == nil && !path.Has(p.hopID())
}

// exclude stops the peer from publishing a track for the rest of its session.
func (p *peer) exclude(h *hub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.excluded == nil {
		p.excluded = make(map[string]struct{})
	}
	p.excluded[h.name.Key()] = struct{}{}
}

func (p *peer) isExcluded(h *hub) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, excluded := p.excluded[h.name.Key()]
	return excluded
}

// leave gives back the peer's session. The last bytes that it was sent count, too: otherwise short sessions were free.
func (p *peer) leave() {
	p.standing.close()
	p.relay.downloads.charge(p)
	p.payers().Give(charge.SessionsOpen)
}

// payers returns all accounts of the peer.
func (p *peer) payers() charge.Payers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accounts
}

// token returns the account of a token that the Authorizer has accepted from the peer.
func (p *peer) token(subject string) (*charge.Account, *moqt.RequestError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.accounts {
		if a.Key == (charge.Key{Kind: charge.ByToken, Name: subject}) {
			return a, nil
		}
	}
	a, refused := p.relay.accounts.OpenToken(subject)
	if refused == nil {
		p.accounts = append(p.accounts[:len(p.accounts):len(p.accounts)], a)
	}
	return a, refused
}

// admitMatches refuses a prefix with more values than a request, or at the moment the session, may match. All other
// requests to the relay wait while it looks at these values.
func (p *peer) admitMatches(n int) *moqt.RequestError {
	switch {
	case p.hidden:
		return nil
	case n > p.relay.cfg.MaxMatches:
		return errTooManyMatches
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
func (p *peer) authorize(r *session.Request, a Action, track moqt.FullTrackName) (*permission, *moqt.RequestError) {
	m := &permission{peer: p, request: r, action: a, track: track}
	m.lease = &lease{relay: p.relay, ctx: p.session.Context(), ask: m.question}
	if p.mayAsk != nil {
		return m, p.mayAsk(r.Context(), a, track)
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
