package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
	"sluice/transport"
)

const (
	// sweepInterval is how often limits of age and memory are applied.
	sweepInterval = 250 * time.Millisecond
	// reviewInterval is how often an Authorizer is asked whether it has withdrawn something.
	reviewInterval = time.Second
)

// Relay connects the publishers and subscribers that Serve is given. See New.
//
// Locks are taken in the order Relay.mu, hub.mu, downstream.mu; a hub's is taken while its track's sources hold theirs. Sessions and outlets
// are called with locks held, as they do not block.
type Relay struct {
	cfg     Config
	log     *slog.Logger
	cache   *track.Cache
	metrics *metrics
	policy  atomic.Pointer[FastPathPolicy]
	reviews reviews
	tasks   sync.WaitGroup // what outlives the handler that started it

	mu        sync.Mutex
	peers     map[*peer]struct{}
	lastID    uint64          // of a session
	ended     []SessionStatus // the last ones
	draining  bool
	hubs      map[string]*hub       // by place and name
	hubTree   tree[*hub]            // by place
	announced tree[*announcement]   // PUBLISH_NAMESPACE
	watches   tree[*namespaceWatch] // SUBSCRIBE_NAMESPACE
	wanted    tree[*tracksWatch]    // SUBSCRIBE_TRACKS
	drained   chan struct{}         // closed when the last peer has left; nil unless Drain waits
}

// New returns a relay without peers.
func New(cfg Config) (*Relay, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Authorizer == nil {
		cfg.Authorizer = AllowAll{}
		cfg.Logger.Warn("anybody may publish and subscribe to everything; set an authorization token file to change that")
	}
	r := &Relay{
		cfg:   cfg,
		log:   cfg.Logger,
		cache: track.NewCache(cfg.Cache),
		peers: make(map[*peer]struct{}),
		hubs:  make(map[string]*hub),
	}
	r.policy.Store(&r.cfg.FastPathPolicy)
	r.metrics = newMetrics(r)
	return r, nil
}

// Run applies the limits of the cache, and withdraws permissions, until ctx is done. It has to run while sessions are served.
func (r *Relay) Run(ctx context.Context) {
	tick, review := time.NewTicker(sweepInterval), time.NewTicker(reviewInterval)
	defer tick.Stop()
	defer review.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.cache.Sweep()
			r.sweepHubs()
		case <-review.C:
			if a, ok := r.cfg.Authorizer.(Reviewer); ok && a.Changed() {
				r.reviews.start()
			}
		}
	}
}

// Serve runs the session of a peer that has connected, until it ends or ctx is done. It returns nil if the session ended without an error.
func (r *Relay) Serve(ctx context.Context, conn transport.Conn) error {
	p, err := r.newPeer(conn)
	if err != nil {
		_ = conn.CloseWithError(uint64(moqt.SessionInternalError), err.Error()) // it can only have ended already
		return err
	}
	if err := r.enter(p); err != nil {
		_ = conn.CloseWithError(uint64(moqt.SessionInternalError), err.Error())
		return err
	}
	defer r.leave(p)
	return p.session.Run(ctx)
}

var (
	errTooManySessions = errors.New("the relay has no room for another session; try again later")
	errDraining        = errors.New("the relay is going away; use another one")
)

func (r *Relay) newPeer(conn transport.Conn) (*peer, error) {
	outlet, err := r.cfg.NewOutlet(conn)
	if err != nil {
		return nil, err
	}
	p := &peer{relay: r, conn: conn, outlet: outlet}
	cfg := r.cfg.Session
	cfg.Role, cfg.Handler, cfg.Logger = session.Server, p, r.log
	if p.session, err = session.New(conn, cfg); err != nil {
		return nil, err
	}
	p.forwarder = forwarderOf(conn, p.session.Version())
	return p, nil
}

func (r *Relay) enter(p *peer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return errDraining
	case len(r.peers) >= r.cfg.MaxSessions:
		return errTooManySessions
	}
	r.lastID++
	p.id, p.since = r.lastID, time.Now()
	r.peers[p] = struct{}{}
	return nil
}

func (r *Relay) leave(p *peer) {
	last := p.status()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.peers, p)
	r.remember(last)
	if len(r.peers) == 0 && r.drained != nil {
		close(r.drained)
		r.drained = nil
	}
}

// acquire returns the hub of a track in the peer's scope, or nil if there are too many. It exists until it is released, and longer while it
// is of use.
func (p *peer) acquire(name moqt.FullTrackName) *hub {
	r, at := p.relay, p.place(name.Namespace)
	r.mu.Lock()
	defer r.mu.Unlock()
	key := moqt.FullTrackName{Namespace: at, Name: name.Name}.Key()
	h := r.hubs[key]
	if h == nil {
		if len(r.hubs) >= r.cfg.MaxTracks {
			return nil
		}
		h = newHub(r, name, at)
		r.hubs[key] = h
		r.hubTree.add(at, h)
	}
	h.refs++
	return h
}

func (r *Relay) release(h *hub) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.refs--
}

// sweepHubs drops the hubs that nobody uses and that hold nothing.
func (r *Relay) sweepHubs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, h := range r.hubs {
		if h.refs == 0 && h.idle() {
			delete(r.hubs, key)
			r.hubTree.remove(h.place, h)
			h.fast.Close()
		}
	}
}

var errTooManyTracks = &moqt.RequestError{Code: moqt.RequestExcessiveLoad, Reason: "the relay has no room for another track"}
