package relay

import (
	"context"
	"crypto/subtle"
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/names"
	"sluice/transport"
)

const (
	// linkResponse is how long another process may take to answer, unless it is asked to wait for a publisher.
	linkResponse = 5 * time.Second
	// linkTokenType is the token type (draft §10.2.2) of the secret. No other implementation sees it.
	linkTokenType = 0
)

var errIntruder = errors.New("the secret is wrong")

// Link is a session with another process of the same relay, while one replaces the other. Over it, the publishers of
// each process feed the subscribers of the other one.
//
// A link is a peer of the relay for which no limit, quota or authorization counts, and which is in no status: the other
// process has seen to all that. Its requests name tracks by their places: the namespace has the scope in front.
//
// Links feed only subscribers of this process, and are fed only by publishers of this process. So objects cross one
// link at most, however many processes there are, and do not go round in circles. A hub asks the links when it has no
// publisher, but subscribers of its own, or a SUBSCRIBE_TRACKS that the track is to be offered to. A process without
// a publisher refuses, and is asked to wait for one if the subscribers do (RENDEZVOUS_TIMEOUT). When its publisher
// leaves, it ends the subscriptions of links at once, so that the other process looks for the publisher again. If a
// publisher appears in the process that a link feeds, the hub has two publishers, and compares their objects as always,
// until the link's ends.
type Link struct {
	peer  *peer
	names *names.Mirror[*peer]
}

// linkLimits are so large that the limits of the processes' peers count, and not these.
var linkLimits = session.Limits{
	MaxSubscriptions: 1 << 20, MaxFetches: 1 << 20, MaxNamespaces: 1 << 20, RequestRate: 1 << 20, RequestBurst: 1 << 20,
	MaxHeldStreams: 1 << 14, MaxHeldDatagrams: 16 << 20, MaxSendQueue: 64 << 20,
}

// NewLink makes a link of a connection. The end that has opened the connection is the client and sends the secret; the
// other one ends the session if the secret is not its own.
func (r *Relay) NewLink(conn transport.Conn, role session.Role, secret []byte) (*Link, error) {
	sender, err := r.senderOf(conn)
	if err != nil {
		return nil, err
	}
	p := &peer{terms: termsOfLinks(r), relay: r, conn: conn, sender: sender}
	l := &Link{peer: p}
	cfg := session.Config{
		Role: role, Handler: &linkRequests{serve: requests{p}, link: l, server: role == session.Server, secret: secret},
		Limits: linkLimits, Timeouts: session.Timeouts{Response: linkResponse}, Logger: r.log.With("link", true),
	}
	if role == session.Client {
		cfg.Path = "/"
		cfg.Tokens = []moqt.Token{{AliasType: moqt.AliasUseValue, Type: linkTokenType, Value: secret}}
	}
	if p.session, err = session.New(conn, cfg); err != nil {
		return nil, err
	}
	l.names = names.NewMirror(p, &r.directory)
	return l, nil
}

// Run runs the session until it ends or ctx is done. It returns nil if the session ended without an error.
func (l *Link) Run(ctx context.Context) error {
	defer l.names.End(l)
	defer l.peer.relay.links.remove(l.peer)
	return l.peer.session.Run(ctx)
}

// Ready returns a channel that is closed when the other process has answered.
func (l *Link) Ready() <-chan struct{} { return l.peer.session.Ready() }

// linkRequests serves the requests of a link. It implements session.Handler.
type linkRequests struct {
	session.Unsupported
	serve  requests
	link   *Link
	server bool
	secret []byte
}

// HandleSetup implements session.Handler.
func (q *linkRequests) HandleSetup(_ *session.Session, setup session.Peer) error {
	p := q.serve.peer
	if q.server && !q.knowsSecret(setup.Tokens) {
		p.relay.metrics.intruders.Inc()
		return errIntruder
	}
	if !p.relay.links.add(p) {
		return errDraining
	}
	p.relay.directory.eachHub(func(h *hub) { h.publishers.subscribe(p) })
	// For its namespaces and tracks, of all scopes.
	told := func(ns moqt.Namespace, on bool, way moqt.Parameters) { q.link.names.Changed(q.link, ns, on, way) }
	_, err := p.session.SubscribeNamespace(p.session.Context(), moqt.SubscribeNamespace{}, told)
	if err != nil && p.session.Context().Err() == nil {
		p.relay.log.Warn("subscribers will not find the namespaces of another process of the relay", "err", err)
	}
	return nil
}

func (q *linkRequests) knowsSecret(tokens []moqt.Token) bool {
	return len(tokens) == 1 && subtle.ConstantTimeCompare(tokens[0].Value, q.secret) == 1
}

// HandleSubscribe implements session.Handler.
func (q *linkRequests) HandleSubscribe(pub *session.Publication) { q.serve.HandleSubscribe(pub) }

// HandleFetch implements session.Handler.
func (q *linkRequests) HandleFetch(req *session.IncomingFetch) { q.serve.HandleFetch(req) }

// HandleTrackStatus implements session.Handler.
func (q *linkRequests) HandleTrackStatus(req *session.IncomingTrackStatus) {
	q.serve.HandleTrackStatus(req)
}

// HandleSubscribeNamespace implements session.Handler.
func (q *linkRequests) HandleSubscribeNamespace(req *session.IncomingSubscribeNamespace) {
	if req.OK() == nil {
		defer q.serve.peer.relay.directory.names.Follow(q.serve.peer, tell(req))()
		<-req.Context().Done()
	}
}

// requestReplay asks another process for the groups that this process may have missed while it had no publisher.
func (u *upstream) requestReplay(p *moqt.Parameters) {
	if largest := u.hub.track().Largest(); largest != nil {
		p.Filter = &moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: moqt.Location{Group: largest.Group}}
	}
}

// replayFor returns the group from which on another process wants the groups that are held. Its filter means only that:
// objects of a publisher that has started over pass, too.
func replayFor(p *peer, params *moqt.Parameters) *uint64 {
	if !p.replays || params.Filter == nil {
		return nil
	}
	group := params.Filter.Start.Group
	params.Filter = nil
	return &group
}

// hasPublisher reports whether a publisher of this process answers, or can be asked.
func (h *hub) hasPublisher(ctx context.Context) bool {
	h.mu.Lock()
	own := slices.Collect(h.publishers.where(broughtFrom(here)))
	h.mu.Unlock()
	return len(own) == 0 || anyIsThere(ctx, own)
}

// links are the links whose other ends have answered.
type links struct {
	mu     sync.Mutex
	peers  []*peer // replaced, never changed
	closed bool
}

// add enters a link. It returns false if the relay has ended.
func (s *links) add(p *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.peers = append(slices.Clip(s.peers), p)
	}
	return !s.closed
}

func (s *links) remove(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = slices.DeleteFunc(slices.Clone(s.peers), func(q *peer) bool { return p == q })
}

// list returns the links, which the caller must not change.
func (s *links) list() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers
}

// close ends all links.
func (s *links) close() {
	s.mu.Lock()
	s.closed = true
	peers := s.peers
	s.mu.Unlock()
	for _, p := range peers {
		p.session.Close(moqt.SessionNoError, "")
	}
}
