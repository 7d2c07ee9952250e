package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/media"
	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/fetch"
	"sluice/relay/internal/hub"
	"sluice/relay/internal/lease"
	"sluice/relay/internal/names"
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
	leases  *lease.Leases
	tasks   sync.WaitGroup // goroutines that outlive the handler that started them
	drained context.Context
	end     context.CancelFunc // of drained

	sessions  sessions
	neighbors Neighbors
	accounts  *charge.Accounts
	directory *hub.Directory

	// senderOf returns the media sender of a connection. Tests replace it: their connections have no media sender.
	senderOf func(transport.Conn) (hub.MediaSender, error)
	// sentOn returns how many bytes of media were sent on a connection. Tests replace it.
	sentOn func(transport.Conn) uint64
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
		cfg: cfg, log: cfg.Logger, cache: track.NewCache(cfg.Cache), leases: lease.NewLeases(),
		senderOf: hub.MediaSenderOf, sentOn: sentBytes,
	}
	r.sessions = sessions{
		limit: cfg.MaxSessions, peers: make(map[*peer]struct{}), neighbors: make(map[*peer]*Neighbor),
		guests: make(map[*Guest]struct{}),
	}
	r.drained, r.end = context.WithCancel(context.Background())
	r.metrics = newMetrics(r)
	r.directory = hub.NewDirectory(configOf(r), cfg.FastPathPolicy.Subscribers)
	r.neighbors.relay = r
	r.neighbors.SetRoutes(RouteTable(nil))
	r.accounts = charge.NewAccounts(charge.Config{
		Logger: r.log, MaxRequests: cfg.MaxRequests, PerAddress: cfg.PerAddress, PerToken: cfg.PerToken,
		Exempt: cfg.Exempt, Refusals: r.metrics.quotas,
	})
	return r, nil
}

// configOf returns what hubs need to know of a relay.
func configOf(r *Relay) hub.Config {
	return hub.Config{
		Cache: r.cache, FastPath: r.cfg.FastPath, Log: r.log, Tasks: &r.tasks, Counters: &r.metrics.counters,
		Neighbors: r.neighbors.of,
		Fetch:     fetch.Config{Fill: r.cfg.FillTimeout, Stall: r.cfg.StallTimeout, Refused: r.metrics.refused},
		HopID:     r.cfg.Session.HopID, MaxTracks: r.cfg.MaxTracks, MaxMatches: r.cfg.MaxMatches,
		Linger: r.cfg.Linger, Grace: r.cfg.Grace, MaxRendezvous: r.cfg.MaxRendezvous,
	}
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
			r.directory.Sweep()
			if elapsed := now.Sub(reviewed); elapsed >= reviewInterval {
				reviewed = now
				r.settle(elapsed)
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
				r.leases.Changed()
			}
		}
		timer.Reset(next)
	}
}

// settle charges the bytes sent since the last call, by user space and by the kernel: that could not wait for a quota.
// Accounts that have received too much lose as many of their newest subscriptions as that is.
func (r *Relay) settle(elapsed time.Duration) {
	peers, _ := r.sessions.list()
	for _, p := range peers {
		p.Sent(r.sentOn(p.Conn))
	}
	for _, a := range r.accounts.List() {
		if part := a.Excess(elapsed); part > 0 {
			r.directory.EndPart(a, part)
		}
	}
}

func sentBytes(c transport.Conn) uint64 {
	if s, ok := c.Hooks().(media.Hooks); ok {
		return s.Stats().Bytes
	}
	return 0
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
	err = p.Session.Run(ctx)
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
	p := newPeer(r, hub.Terms{Reach: hub.Elsewhere}, mayAsk)
	err := p.accept(conn, address)
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
	r.directory.SetPolicy(p.Subscribers)
}

// Neighbors returns the neighbours of the relay.
func (r *Relay) Neighbors() *Neighbors { return &r.neighbors }

// Viewers returns how many sessions watch the broadcast in a namespace: the largest number of subscribers that one of
// its tracks has. A player subscribes to one of several renditions, but to the only audio track, or to the catalog. The
// authority and path come from the URL by which the asker would connect.
func (r *Relay) Viewers(ns moqt.Namespace, authority, path string) int {
	return r.directory.Report().Viewers(names.PlaceOf(r.cfg.Scope(authority, path), ns))
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

// Clients returns the sessions of clients. A peer with a Hop ID, or with an address that is exempt from quotas, may be
// a relay.
func (r *Relay) Clients() (list []Client) {
	for _, p := range r.sessions.direct() {
		source := transport.SourceOf(p.Remote())
		name, ready := p.implementation()
		if !ready || p.Reach < hub.Elsewhere || p.HopID() != 0 || r.accounts.IsExempt(source) {
			continue
		}
		c := Client{
			Source: source, Kind: p.Conn.Kind(), Path: cmp.Or(p.Conn.Path(), p.Setup.Path), Began: p.since,
			MinRTT: p.minRTT(), Implementation: name, peer: p,
		}
		list = append(list, c)
	}
	return list
}

// Drain takes the relay out of service (draft §3.6): it sends GOAWAY to all peers, with the URI of another relay if
// there is one, and waits until they have left. Peers that come meanwhile are sent away as well. Sessions that last
// longer than the timeout are closed with GOAWAY_TIMEOUT; when ctx is done, the rest are closed with NO_ERROR.
func (r *Relay) Drain(ctx context.Context, uri string, timeout time.Duration) {
	r.DrainSome(ctx, uri, timeout, func(string) bool { return true })
}

// DrainSome is Drain that sends GOAWAY only to those peers for whose MOQT_IMPLEMENTATION asks returns true. The others
// go on as before, until they leave or ctx is done. Other processes of the relay get what this one has for some time
// longer.
func (r *Relay) DrainSome(ctx context.Context, uri string, timeout time.Duration, asks func(string) bool) {
	empty := r.sessions.drain(&farewell{uri, timeout, asks})
	asking, stop := context.WithCancel(context.Background())
	defer stop()
	go r.sessions.askAgain(asking)
	select {
	case <-empty:
	case <-ctx.Done():
		r.sessions.closeAll("the relay is going away")
		<-empty
	}
	linger(ctx, r)
	r.end()
	r.sessions.closeNeighbors()
	r.tasks.Wait()
}

// Admit makes a client a guest, until Leave. What the client asks permission for has the action of the message by which
// a peer would ask. To refuse, Admit returns a *moqt.RequestError.
func (r *Relay) Admit(ctx context.Context, ask AuthRequest) (*Guest, error) {
	address, refused := r.accounts.OpenAddress(transport.SourceOf(ask.Remote), false)
	if refused != nil {
		return nil, refused
	}
	g := &Guest{relay: r, began: time.Now(), ask: ask}
	g.purse.Open(address)
	g.ctx, g.end = context.WithCancelCause(context.Background())
	if refused := g.enter(ctx); refused != nil {
		g.Leave()
		r.metrics.refused(refused.Code)
		return nil, refused
	}
	return g, nil
}

// authorize asks the Authorizer. It logs an error that is not for peers. A panic is such an error: an Authorizer parses
// what strangers have made up, with libraries.
func (r *Relay) authorize(ctx context.Context, ask AuthRequest) (Grant, *moqt.RequestError) {
	grant, err := func() (_ Grant, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			}
		}()
		return r.cfg.Authorizer.Authorize(ctx, ask)
	}()
	if err == nil {
		return grant, nil
	}
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		r.log.Error("cannot authorize", "remote", ask.Remote, "namespace", ask.Namespace, "err", err)
		refused = &moqt.RequestError{Code: moqt.RequestInternalError, Reason: "authorization failed"}
	}
	return Grant{}, refused
}

// Describe implements prometheus.Collector.
func (r *Relay) Describe(ch chan<- *prometheus.Desc) {
	r.metrics.all.Describe(ch)
}

// Collect implements prometheus.Collector.
func (r *Relay) Collect(ch chan<- prometheus.Metric) {
	r.metrics.all.Collect(ch)
}

// Overview describes the tracks. It takes the lock of each of them.
func (r *Relay) Overview() (o Overview) {
	o.Received = r.metrics.counters.Received.Load()
	o.Tracks, o.Publishers, o.Viewers = r.directory.Report().Tracks()
	return o
}

// Subscribers describes up to limit subscribers of the track with an id, the oldest sessions first, and tells how many
// there are. It returns false if there is no such track.
func (r *Relay) Subscribers(id uint64, limit int) (list []SubscriberStatus, all int, ok bool) {
	subscribers, all, ok := r.directory.Report().Subscribers(id, limit)
	for _, s := range subscribers {
		list = append(list, SubscriberStatus{statusOf(s.Peer.Owner.(*peer)), s.OnFastPath, s.Forward, s.Rendition})
	}
	return list, all, ok
}

// Sessions describes the present sessions and the ones that ended during the last minute (256 at most), in the order in
// which they began.
func (r *Relay) Sessions() []SessionStatus {
	peers, list := r.sessions.list()
	counts := r.directory.Report().OfPeers()
	for _, p := range peers {
		s := statusOf(p)
		t := counts[&p.Peer]
		s.Publications, s.Subscriptions, s.OnFastPath = t.Published, t.Subscribed, t.Fast
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b SessionStatus) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
