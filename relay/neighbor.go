package relay

import (
	"context"
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/hub"
	"sluice/relay/internal/neighbor"
	"sluice/transport"
)

const (
	// neighborResponse is how long a neighbour may take to answer, unless it is asked to wait for a publisher. Then the
	// next one is asked.
	neighborResponse = 5 * time.Second
	// retireInterval is how often to look whether a session that another one has replaced is still in use.
	retireInterval = 250 * time.Millisecond
	// linkTokenType is the token type (draft §10.2.2) of the secret. No other implementation sees it.
	linkTokenType = 0
)

var errIntruder = errors.New("the secret is wrong")

// relayLimits are the limits of sessions between relays, which carry the requests of many peers.
var relayLimits = session.Limits{
	MaxSubscriptions: 1 << 14, MaxFetches: 1 << 12, MaxNamespaces: 1 << 14, RequestRate: 1 << 12, RequestBurst: 1 << 14,
	MaxHeldStreams: 1 << 12, MaxHeldDatagrams: 4 << 20, MaxSendQueue: 16 << 20,
}

// linkLimits are so large that the limits of the processes' peers count, and not these.
var linkLimits = session.Limits{
	MaxSubscriptions: 1 << 20, MaxFetches: 1 << 20, MaxNamespaces: 1 << 20, RequestRate: 1 << 20, RequestBurst: 1 << 20,
	MaxHeldStreams: 1 << 14, MaxHeldDatagrams: 16 << 20, MaxSendQueue: 64 << 20,
}

// Neighbor is a session with another process of this relay (a link), or with an upstream relay. It feeds subscribers of
// this process, and is fed by publishers of this process: objects do not go from one neighbour to another. All that
// differs between the two kinds is in the terms of its peer.
type Neighbor struct {
	peer       *peer
	names      *hub.Mirror // of its publishers
	goaway     chan moqt.Goaway
	watches    *neighbor.Watches
	announcer  *neighbor.Announcer
	sharing    context.Context // done when the session shares no names any more
	endSharing context.CancelFunc
}

// newNeighbor makes a session. The other end has to know the secret, if there is one.
func newNeighbor(
	p *peer, conn transport.Conn, cfg session.Config, tells *hub.Mirror, secret []byte,
) (*Neighbor, error) {
	n := &Neighbor{peer: p, names: tells, goaway: make(chan moqt.Goaway, 1)}
	cfg.Handler = &neighborRequests{serve: requests{p}, neighbor: n, secret: secret}
	cfg.ResponseTimeout = neighborResponse
	if err := p.connect(conn, cfg); err != nil {
		return nil, err
	}
	n.sharing, n.endSharing = context.WithCancel(p.Session.Context())
	talk := n.talk()
	n.watches, n.announcer = neighbor.NewWatches(talk), neighbor.NewAnnouncer(talk)
	return n, nil
}

// Run runs the session until it ends or ctx is done. It returns nil if the session ended without an error.
func (n *Neighbor) Run(ctx context.Context) error {
	p := n.peer
	err := p.Session.Run(ctx)
	if p.upstream != nil {
		p.upstream.end(n)
	}
	p.emitEnd(err)
	p.relay.sessions.remove(p)
	return err
}

// share shows each relay the namespaces of the other one, until the session ends or another one has replaced it.
func (n *Neighbor) share() {
	defer n.endSharing()
	select {
	case <-n.Ready():
	case <-n.sharing.Done():
		return
	}
	if u := n.peer.upstream; u != nil && len(u.cfg.Announce) > 0 {
		defer n.peer.relay.directory.Names.Follow(&n.peer.Peer, n.announcer.Changed)()
	}
	n.watches.Run()
}

// Ready returns a channel that is closed when the other end has answered.
func (n *Neighbor) Ready() <-chan struct{} { return n.peer.Session.Ready() }

// Goaway returns a channel that gets the relay's GOAWAY. From then on, the session takes no new requests.
func (n *Neighbor) Goaway() <-chan moqt.Goaway { return n.goaway }

// Retire ends a session whose relay goes away: when another session has replaced it and nothing needs this one any
// more, or when that was so long ago. Tracks move to the other session, and stay here until Config.Linger after they
// have come there. Without another session, the relay ends this one.
func (n *Neighbor) Retire(timeout time.Duration) {
	defer n.peer.Session.Close(moqt.SessionNoError, "")
	look := time.NewTicker(retireInterval)
	defer look.Stop()
	var replaced time.Time
	for {
		switch other, _ := n.peer.upstream.current(); {
		case other == nil || other == n.peer:
			replaced = time.Time{}
		case replaced.IsZero():
			replaced = time.Now()
			n.endSharing()
		case n.peer.Session.OpenRequests() == 0, time.Since(replaced) >= timeout:
			return
		}
		select {
		case <-look.C:
		case <-n.peer.Session.Context().Done():
			return
		}
	}
}

// talk describes what the session tells and asks about names.
func (n *Neighbor) talk() neighbor.Config {
	p := n.peer
	cfg := neighbor.Config{
		Session: p.Session, Sharing: n.sharing, Tasks: &p.relay.tasks, Log: p.relay.log, URL: p.URL,
		Ask: []moqt.Namespace{{}}, Watched: n.watched, Told: n.told, Ended: n.names.End,
		Dropped: func(prefix moqt.Namespace) { p.relay.directory.DropOffers(&p.Peer, prefix) },
	}
	if u := p.upstream; u != nil {
		cfg.Announce, cfg.Ask = u.cfg.Announce, u.cfg.Namespaces
	}
	return cfg
}

// watched returns the prefixes that subscribers of this process watch, and that the other end may be asked about.
// Another process is asked for all namespaces.
func (n *Neighbor) watched() (namespaces, tracks []hub.Prefix) {
	p, d := n.peer, n.peer.relay.directory
	if p.Scoped {
		return []hub.Prefix{{}}, nil
	}
	asks := func(watched []hub.Prefix) []hub.Prefix {
		return slices.DeleteFunc(watched, func(w hub.Prefix) bool {
			return w.Peer.From != hub.Here || !p.Takes(w.Path)
		})
	}
	return asks(d.Names.Watched(p.Scope)), asks(d.Watched(p.Scope))
}

// told shows what the neighbour tells, unless it may not be asked for the tracks of the namespace.
func (n *Neighbor) told(teller any, ns moqt.Namespace, on bool, way moqt.Parameters) {
	u := n.peer.upstream
	if !on || u == nil || len(ns) > 0 && u.isRouteFor(n.peer.Naming().Place(ns)) {
		n.names.Changed(teller, ns, on, way)
	}
}

// neighborRequests serves what a neighbour asks for. It implements session.Handler.
type neighborRequests struct {
	session.Unsupported
	serve    requests
	neighbor *Neighbor
	secret   []byte // that the other end has to know; nil: none
}

// HandleSetup implements session.Handler.
func (q *neighborRequests) HandleSetup(_ *session.Session, setup session.Peer) error {
	p := q.serve.peer
	if q.secret != nil && !q.isKnownTo(setup) {
		p.relay.metrics.intruders.Inc()
		return errIntruder
	}
	p.begin(setup, p.Scope, p.Reach)
	if p.upstream != nil {
		p.upstream.begin(q.neighbor)
	} else if err := p.relay.sessions.addNeighbor(q.neighbor); err != nil {
		return err
	}
	p.relay.neighbors.Reroute()
	return nil
}

// isKnownTo reports whether the other end knows the secret.
func (q *neighborRequests) isKnownTo(p session.Peer) bool {
	return len(p.Tokens) == 1 && subtle.ConstantTimeCompare(p.Tokens[0].Value, q.secret) == 1
}

// HandleGoaway implements session.Handler.
func (q *neighborRequests) HandleGoaway(_ *session.Session, g moqt.Goaway) {
	if u := q.serve.peer.upstream; u != nil {
		u.end(q.neighbor)
		q.neighbor.goaway <- g
	}
}

// HandlePublish implements session.Handler.
func (q *neighborRequests) HandlePublish(sub *session.Subscription) {
	if !q.neighbor.watches.HasAskedFor(sub.Track().Namespace) {
		_ = sub.Reject(&moqt.RequestError{ // fails only if the request is over
			Code: moqt.RequestUninterested, Reason: "the track is not wanted here",
		})
		return
	}
	q.serve.HandlePublish(sub)
}

// HandleSubscribe implements session.Handler.
func (q *neighborRequests) HandleSubscribe(pub *session.Publication) { q.serve.HandleSubscribe(pub) }

// HandleFetch implements session.Handler.
func (q *neighborRequests) HandleFetch(req *session.IncomingFetch) { q.serve.HandleFetch(req) }

// HandleTrackStatus implements session.Handler.
func (q *neighborRequests) HandleTrackStatus(req *session.IncomingTrackStatus) {
	q.serve.HandleTrackStatus(req)
}

// HandleSubscribeNamespace implements session.Handler. Only another process asks, for the namespaces of all scopes.
func (q *neighborRequests) HandleSubscribeNamespace(req *session.IncomingSubscribeNamespace) {
	p := q.serve.peer
	if !p.Scoped {
		q.Unsupported.HandleSubscribeNamespace(req)
	} else if req.OK() == nil {
		defer p.relay.directory.Names.Follow(&p.Peer, tell(req))()
		<-req.Context().Done()
	}
}
