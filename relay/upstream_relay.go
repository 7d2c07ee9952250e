package relay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/names"
	"sluice/transport"
)

// UpstreamRelay is another relay, of any kind, at which this one subscribes to what no publisher of its own has. Its
// user dials it, and gives it one session after another: see [UpstreamRelay.NewSession]. Routes say which tracks it may
// have. Make one with [Relay.NewUpstreamRelay].
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
	names *names.Mirror[*peer]

	mu      sync.Mutex
	session *UpstreamSession // for new requests; nil if there is none
	down    bool             // the last attempt to connect has failed
	begun   bool             // there was a session
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

// NewUpstreamRelay returns an upstream relay, which is not connected yet.
func (r *Relay) NewUpstreamRelay(cfg UpstreamRelayConfig) (*UpstreamRelay, error) {
	target, err := transport.ParseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream relay: %w", err)
	}
	u := &UpstreamRelay{
		relay: r, cfg: cfg, name: transport.WithoutQuery(cfg.URL), scope: r.cfg.Scope(target.Authority, target.Path),
	}
	u.names = names.NewMirror(u.newPeer(), &r.directory)
	u.names.Limit, u.names.Linger = maxUpstreamNamespaces, r.cfg.Linger
	u.names.Full = func() {
		u.warn.Log(r.log, warnInterval, slog.LevelWarn, "an upstream relay has too many namespaces",
			"upstream", u.name, "limit", maxUpstreamNamespaces)
	}
	return u, nil
}

// newPeer returns a peer that stands for the relay, also without a session.
func (u *UpstreamRelay) newPeer() *peer {
	return &peer{terms: termsOfUpstreams(u), relay: u.relay, upstream: u, scope: u.scope}
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
		u.relay.Reroute()
	}
}

// current returns the session for new requests. If there is none, it reports whether there may be one soon.
func (u *UpstreamRelay) current() (p *peer, connecting bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.session; s != nil && s.peer.session.Context().Err() == nil {
		return s.peer, false
	}
	return nil, !u.down
}

// isCurrent reports whether the session of a peer takes new requests.
func (u *UpstreamRelay) isCurrent(p *peer) bool {
	current, _ := u.current()
	return current == p
}

// hasOther reports whether a session that is not s takes new requests.
func (u *UpstreamRelay) hasOther(s *UpstreamSession) bool {
	p, _ := u.current()
	return p != nil && p != s.peer
}

// begin makes a session take new requests.
func (u *UpstreamRelay) begin(s *UpstreamSession) {
	u.mu.Lock()
	u.session, u.down, u.begun = s, false, true
	u.mu.Unlock()
	u.relay.Reroute()
}

// end is the reverse of begin.
func (u *UpstreamRelay) end(s *UpstreamSession) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.session == s {
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
	return UpstreamStatus{Connected: true, RTT: p.conn.RTT(), Requests: p.session.OpenRequests()}
}

// UpstreamStatus describes an upstream relay.
type UpstreamStatus struct {
	Connected bool
	Down      bool          // the last attempt to connect has failed
	Lost      bool          // there is no session any more, or it takes no new requests
	RTT       time.Duration // smoothed; 0 if there is no session
	Requests  int           // that are open in the session
}

// UpstreamSession is a session with an upstream relay.
type UpstreamSession struct {
	upstream   *UpstreamRelay
	peer       *peer
	goaway     chan moqt.Goaway
	watches    *upstreamWatches
	announcer  announcer
	sharing    context.Context // done when the session shares no names any more
	endSharing context.CancelFunc
}

const (
	// upstreamResponse is how long an upstream relay may take to answer, unless it is asked to wait for a publisher.
	// Then the next one of the route is asked.
	upstreamResponse = 5 * time.Second
	// retireInterval is how often to look whether a session that another one has replaced is still in use.
	retireInterval = 250 * time.Millisecond
)

// relayLimits are the limits of sessions between relays, which carry the requests of many peers.
var relayLimits = session.Limits{
	MaxSubscriptions: 1 << 14, MaxFetches: 1 << 12, MaxNamespaces: 1 << 14, RequestRate: 1 << 12, RequestBurst: 1 << 14,
	MaxHeldStreams: 1 << 12, MaxHeldDatagrams: 4 << 20, MaxSendQueue: 16 << 20,
}

// NewSession makes a session of a connection to the relay, or to one that it has named in GOAWAY. The caller has dialed
// it, and has to call [UpstreamSession.Run].
func (u *UpstreamRelay) NewSession(conn transport.Conn) (*UpstreamSession, error) {
	r := u.relay
	sender, err := r.senderOf(conn)
	if err != nil {
		return nil, err
	}
	p := u.newPeer()
	p.conn, p.sender = conn, sender
	p.matches = rate.NewLimiter(rate.Limit(r.cfg.MatchRate), r.cfg.MaxMatches)
	s := &UpstreamSession{upstream: u, peer: p, goaway: make(chan moqt.Goaway, 1)}
	p.session, err = session.New(conn, session.Config{
		Role: session.Client, Authority: conn.Authority(), Path: conn.Path(), Tokens: u.cfg.Tokens,
		HopID: r.cfg.Session.HopID, Strict: r.cfg.Session.Strict,
		Handler: &upstreamRequests{serve: requests{p}, session: s}, Refused: r.metrics.refused,
		Limits: relayLimits, Timeouts: session.Timeouts{Response: upstreamResponse},
		Logger: r.log.With("upstream", u.name),
	})
	if err != nil {
		return nil, err
	}
	s.sharing, s.endSharing = context.WithCancel(p.session.Context())
	s.watches = newUpstreamWatches(s.sharing, p)
	s.announcer = announcer{peer: p, ctx: s.sharing, of: make(map[string]*announced)}
	p.forwarder = forwarderOf(conn, p.session.Version())
	return s, r.sessions.addUpstream(s)
}

// Run runs the session until it ends or ctx is done. It returns nil if the session ended without an error.
func (s *UpstreamSession) Run(ctx context.Context) error {
	s.peer.relay.tasks.Go(s.share)
	err := s.peer.session.Run(ctx)
	s.upstream.end(s)
	s.peer.emitEnd(err)
	s.peer.relay.sessions.remove(s.peer)
	return err
}

// share shows each relay the namespaces of the other one, until the session ends or another one has replaced it.
func (s *UpstreamSession) share() {
	defer s.endSharing()
	select {
	case <-s.Ready():
	case <-s.sharing.Done():
		return
	}
	if len(s.upstream.cfg.Announce) > 0 {
		defer s.peer.relay.directory.names.Follow(s.peer, s.announcer.changed)()
	}
	s.watches.run()
}

// Ready returns a channel that is closed when the relay has answered.
func (s *UpstreamSession) Ready() <-chan struct{} { return s.peer.session.Ready() }

// Goaway returns a channel that gets the relay's GOAWAY. From then on, the session takes no new requests.
func (s *UpstreamSession) Goaway() <-chan moqt.Goaway { return s.goaway }

// Retire ends a session whose relay goes away: when another session has replaced it and nothing needs this one any
// more, or when that was so long ago. Tracks move to the other session, and stay here until Config.Linger after they
// have come there. Without another session, the relay ends this one.
func (s *UpstreamSession) Retire(timeout time.Duration) {
	defer s.Close()
	look := time.NewTicker(retireInterval)
	defer look.Stop()
	var replaced time.Time
	for {
		switch other := s.upstream.hasOther(s); {
		case !other:
			replaced = time.Time{}
		case replaced.IsZero():
			replaced = time.Now()
			s.endSharing()
		case s.peer.session.OpenRequests() == 0, time.Since(replaced) >= timeout:
			return
		}
		select {
		case <-look.C:
		case <-s.peer.session.Context().Done():
			return
		}
	}
}

// Close ends the session at once.
func (s *UpstreamSession) Close() { s.peer.session.Close(moqt.SessionNoError, "") }

// upstreamRequests serves what an upstream relay asks for. It implements session.Handler.
type upstreamRequests struct {
	session.Unsupported
	serve   requests
	session *UpstreamSession
}

// HandleSetup implements session.Handler.
func (q *upstreamRequests) HandleSetup(_ *session.Session, setup session.Peer) error {
	p := q.serve.peer
	p.begin(setup, p.scope, p.reach)
	q.session.upstream.begin(q.session)
	return nil
}

// HandleGoaway implements session.Handler.
func (q *upstreamRequests) HandleGoaway(_ *session.Session, g moqt.Goaway) {
	q.session.upstream.end(q.session)
	q.session.goaway <- g
}

// HandlePublish implements session.Handler.
func (q *upstreamRequests) HandlePublish(sub *session.Subscription) {
	if !q.session.watches.hasAskedFor(sub.Track().Namespace) {
		_ = sub.Reject(&moqt.RequestError{ // fails only if the request is over
			Code: moqt.RequestUninterested, Reason: "the track is not wanted here",
		})
		return
	}
	q.serve.HandlePublish(sub)
}

// HandleSubscribe implements session.Handler.
func (q *upstreamRequests) HandleSubscribe(pub *session.Publication) { q.serve.HandleSubscribe(pub) }

// HandleFetch implements session.Handler.
func (q *upstreamRequests) HandleFetch(req *session.IncomingFetch) { q.serve.HandleFetch(req) }

// HandleTrackStatus implements session.Handler.
func (q *upstreamRequests) HandleTrackStatus(req *session.IncomingTrackStatus) {
	q.serve.HandleTrackStatus(req)
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

// announces reports whether the upstream relay is told of a namespace of this process.
func (u *UpstreamRelay) announces(ns moqt.Namespace) bool {
	return slices.ContainsFunc(u.cfg.Announce, ns.HasPrefix)
}
