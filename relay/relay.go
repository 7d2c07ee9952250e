package relay

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/media"
	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/names"
	"sluice/relay/withdrawn"
	"sluice/track"
	"sluice/transport"
)

const (
	// sweepInterval is how often the limits on age and memory are applied while there are objects.
	sweepInterval = 250 * time.Millisecond
	// reviewInterval is how often quotas of bytes are applied.
	reviewInterval = time.Second
	// changeInterval is how often an Authorizer is asked whether it has withdrawn a permission.
	changeInterval = 250 * time.Millisecond
)

// Relay connects the publishers and subscribers whose connections Serve is given. See New.
type Relay struct {
	cfg     Config
	log     *slog.Logger
	cache   *track.Cache
	metrics *metrics
	fetch   fetch.Config
	policy  atomic.Pointer[FastPathPolicy]
	leases  leases
	tokens  *withdrawn.List // that have lost their force
	tasks   sync.WaitGroup  // goroutines that outlive the handler that started them
	drained context.Context
	end     context.CancelFunc // of drained

	subscriptions atomic.Uint64 // that peers have had, ever
	sessions      sessions
	neighbors     Neighbors
	accounts      *charge.Accounts
	downloads     downloads
	directory     directory

	// senderOf returns the media sender of a connection. Tests replace it: their connections have no media sender.
	senderOf func(transport.Conn) (mediaSender, error)
}

// New returns a relay without peers.
func New(cfg Config) (*Relay, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Authorizer == nil {
		cfg.Authorizer = AllowAll{}
		cfg.Logger.Warn("anybody may publish and subscribe to everything; " +
			"set an authorization token file to change that")
	}
	r := &Relay{
		cfg: cfg, log: cfg.Logger, cache: track.NewCache(cfg.Cache), leases: newLeases(), senderOf: mediaSenderOf,
	}
	r.tokens = withdrawn.New(func() { r.leases.endOf(r.tokens) })
	r.sessions = sessions{
		limit: cfg.MaxSessions, peers: make(map[*peer]struct{}), neighbors: make(map[*peer]*Neighbor),
		guests: make(map[*Guest]struct{}),
	}
	r.directory = directory{relay: r, hubs: make(map[string]*hub)}
	r.neighbors.relay = r
	r.neighbors.SetRoutes(noRoutes{})
	r.policy.Store(&r.cfg.FastPathPolicy)
	r.drained, r.end = context.WithCancel(context.Background())
	r.metrics = newMetrics(r)
	r.fetch = fetch.Config{Fill: cfg.FillTimeout, Stall: cfg.StallTimeout, Refused: r.metrics.refused}
	r.accounts = charge.NewAccounts(charge.Config{
		Logger: r.log, MaxRequests: cfg.MaxRequests, PerAddress: cfg.PerAddress, PerToken: cfg.PerToken,
		Exempt: cfg.Exempt, Refusals: r.metrics.quotas,
	})
	r.downloads = downloads{relay: r, settled: time.Now(), sentOn: sentBytes}
	return r, nil
}

// Run applies the limits of the cache and the quotas of bytes, and has permissions reviewed, until ctx is done. It has
// to run while sessions are served.
func (r *Relay) Run(ctx context.Context) {
	timer, reviewed := time.NewTimer(sweepInterval), time.Now()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-timer.C:
			r.cache.Sweep()
			r.directory.sweep()
			if now.Sub(reviewed) >= reviewInterval {
				reviewed = now
				r.downloads.settle()
				r.accounts.Sweep()
			}
		}
		next := reviewInterval
		if r.cache.Groups() > 0 {
			next = sweepInterval
		}
		if a, ok := r.cfg.Authorizer.(Reviewer); ok {
			next = min(next, changeInterval)
			if a.Changed() {
				r.leases.changed()
			}
		}
		timer.Reset(next)
	}
}

// Serve runs the session of a peer that has connected, until it ends or ctx is done. It returns nil if the session
// ended without an error.
func (r *Relay) Serve(ctx context.Context, conn transport.Conn) error {
	return r.serve(ctx, conn, nil)
}

// ServeOwn is Serve for a session of this process with itself, which subscribes for clients of another protocol. Each
// of them has a permission and accounts of its own ([Guest]). The session may subscribe to what they may, and publish
// nothing.
func (r *Relay) ServeOwn(ctx context.Context, conn transport.Conn, a *Audience) error {
	return r.serve(ctx, conn, a.mayAsk)
}

func (r *Relay) serve(ctx context.Context, conn transport.Conn, mayAsk permissionFunc) error {
	p, err := r.admit(conn, mayAsk)
	if err != nil {
		_ = conn.CloseWithError(uint64(moqt.SessionInternalError), err.Error()) // fails only if it has ended already
		return err
	}
	err = p.session.Run(ctx)
	p.emitEnd(err)
	r.sessions.remove(p)
	p.leave()
	return err
}

// admit makes a peer of a connection, unless there is no room for it.
func (r *Relay) admit(conn transport.Conn, mayAsk permissionFunc) (*peer, error) {
	address, refused := r.accounts.OpenAddress(transport.SourceOf(conn.RemoteAddr()), mayAsk != nil)
	if refused != nil {
		return nil, refused
	}
	p, err := newPeer(r, conn, address, mayAsk)
	if err == nil {
		err = r.sessions.add(p)
	}
	if err != nil {
		address.Give(charge.SessionsOpen)
		return nil, err
	}
	return p, nil
}

// Drained returns a context that is done when Drain or DrainSome has seen off the last peer. Until then, the sessions
// with upstream relays go on.
func (r *Relay) Drained() context.Context { return r.drained }

// MaxSessions returns how many sessions there may be.
func (r *Relay) MaxSessions() int { return r.cfg.MaxSessions }

// OpenSessions returns the number of sessions.
func (r *Relay) OpenSessions() int { return r.sessions.count() }

// Established returns the number of sessions whose peers have sent SETUP.
func (r *Relay) Established() (n int) {
	for _, p := range r.sessions.direct() {
		if _, ok := p.implementation(); ok {
			n++
		}
	}
	return n
}

// SetFastPathPolicy replaces the policy, for all tracks.
func (r *Relay) SetFastPathPolicy(p FastPathPolicy) {
	r.policy.Store(&p)
	r.directory.eachHub(func(h *hub) { h.fast.update() })
}

// Neighbors returns the neighbours of the relay.
func (r *Relay) Neighbors() *Neighbors { return &r.neighbors }

// Viewers returns how many sessions watch the broadcast in a namespace: the largest number of subscribers that one of
// its tracks has. A player subscribes to one of several renditions, but to the only audio track, or to the catalog. The
// authority and path come from the URL by which the asker would connect.
func (r *Relay) Viewers(ns moqt.Namespace, authority, path string) int {
	return r.directory.viewers(names.PlaceOf(r.cfg.Scope(authority, path), ns))
}

// Guests describes the present guests, in the order in which they came.
func (r *Relay) Guests() (list []GuestStatus) {
	for _, g := range r.sessions.listGuests() {
		list = append(list, g.status())
	}
	slices.SortFunc(list, func(a, b GuestStatus) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Remote, b.Remote))
	})
	return list
}

// Events returns the Events to configure each media sender with: through them the relay learns which subscribers are
// too far behind.
func (r *Relay) Events() media.Events { return events{} }

type events struct{ media.NoEvents }

// TooFarBehind implements media.Events (draft §8).
func (events) TooFarBehind(sub *media.Subscription, _ int64, _ time.Duration) {
	if d, ok := sub.Owner().(*downstream); ok {
		d.end(moqt.DoneTooFarBehind, moqt.ResetTooFarBehind)
	}
}
