package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/relay"
	"sluice/server/cluster"
	"sluice/transport"
)

// ClusterConfig makes a server a node of a cluster.
type ClusterConfig struct {
	Engine  cluster.Engine
	Cluster string  // name of the cluster. Default: "sluice"
	Node    string  // name of the node, which no other has
	Region  string  // may be empty
	URL     string  // at which other nodes reach this relay
	Price   float64 // of asking this node, as milliseconds of RTT
	// Capacity is what the link of this node carries, in bits per second. Default: it is not known, and no part of the
	// load.
	Capacity int
	// ClientURL is where clients reach this node, without a path. With it, clients that are much nearer to another node
	// are sent there, and clients of other nodes may come here. Default: clients stay.
	ClientURL string
	// RTTs is the URL of a monitor (sluice rtt) that knows how far the networks of clients are, besides what their
	// sessions with this node tell. Default: there is none.
	RTTs string
	// Load returns how much the node uses of what it has, from 0 to 1. Default: it is measured.
	Load func(now time.Time) float64

	now func() time.Time // default: time.Now
}

const (
	// meshInterval is how often the node looks at its sessions with others.
	meshInterval = time.Second
	// maxDialedNodes bounds the sessions with other nodes that this one has dialed.
	maxDialedNodes = 256
	// meshWays is how many nodes a track can come from at a time: its feeder, and a node that takes over.
	meshWays = 2
	// meshReroute is how often the node looks again whom to ask: others come, and their costs change.
	meshReroute = 10 * time.Second
	// meshIdle is how long a session is kept that no track needs, nor the session that takes over. It is longer
	// than meshReroute, after which the needs are known.
	meshIdle = 30 * time.Second
	// meshMemory is for how many namespaces it is remembered whom this node asks, and for how many nodes their RTT.
	meshMemory = 1 << 13
	// meshRTTAge is how long the RTT counts that a node had in the last session with it. Then it may be tried again.
	meshRTTAge = 10 * time.Minute
)

// mesh is the server as a node of a cluster. It implements relay.Routes: a track that no publisher of this process has
// comes from the node that package cluster chooses, or from where the static routes say.
type mesh struct {
	server *Server
	cfg    ClusterConfig
	log    *logs.Sparse
	node   *cluster.Node
	static atomic.Pointer[relay.RouteTable]                     // for what no node has
	yields atomic.Bool                                          // another process of the relay is the node
	stop   func()                                               // ends the following of the relay's namespaces
	remote func(node string, ns moqt.Namespace, published bool) // tells the relay of others
	card   atomic.Pointer[cluster.Card]                         // what the node tells about itself
	asked  *lru.Cache[string, string]                           // by namespace: the node that was preferred last
	rtts   *lru.Cache[string, measuredRTT]                      // by node
	alive  atomic.Pointer[map[string]bool]                      // the nodes with which there is a session
	far    *distances                                           // of clients

	mu      sync.Mutex
	dialed  map[meshTarget]*dialedNode
	changes map[meshRoute]meshChange // that the relay was not told yet
	changed chan struct{}            // has a value when there are some

	again time.Time // when to look again whom to ask; used by run only
}

// meshTarget is how another node is dialed.
type meshTarget struct{ node, url string }

// meshRoute says that a node has a publisher for a namespace.
type meshRoute struct{ node, namespace string }

// meshChange is the last change of a route.
type meshChange struct {
	cluster.Change
	known bool // the relay knows the route
}

// dialedNode is another node that this one has dialed.
type dialedNode struct {
	relay *relay.UpstreamRelay
	end   context.CancelFunc
	used  time.Time
}

// measuredRTT is the RTT of a session with a node.
type measuredRTT struct {
	rtt time.Duration
	at  time.Time
}

// JoinCluster makes the server a node of a cluster, until it drains. It has to be called before Serve, once at most. It
// closes the engine when it fails, and when the node leaves. Nodes prove to each other who they are by
// Config.Transport.Mutual; without that, sessions with other nodes use the transport of Config.Upstream. Its tokens
// authorize them either way, and its routes are for what no node has.
func (s *Server) JoinCluster(cfg ClusterConfig) error {
	if cfg.now == nil {
		cfg.now = time.Now
	}
	if cfg.Load == nil {
		meter := newLoadMeter(s, cfg.Capacity)
		cfg.Load = func(now time.Time) float64 { return meter.measure(meter.usage(now)) }
	}
	asked, err := lru.New[string, string](meshMemory)
	rtts, err2 := lru.New[string, measuredRTT](meshMemory)
	if err := errors.Join(err, err2); err != nil {
		return errors.Join(err, cfg.Engine.Close())
	}
	m := &mesh{
		server: s, cfg: cfg, log: logs.NewSparse(s.log), asked: asked, rtts: rtts,
		dialed: make(map[meshTarget]*dialedNode), remote: s.relay.Neighbors().MirrorRemote(""),
		changes: make(map[meshRoute]meshChange), changed: make(chan struct{}, 1),
	}
	m.static.Store(new(relay.RouteTable))
	if m.far, err = newDistances(m); err != nil {
		return errors.Join(err, cfg.Engine.Close())
	}
	m.look(cfg.now())
	tokens := relay.OperatorOf(s.relay).Withdrawn()
	m.node, err = cluster.Join(cluster.Config{
		Cluster: cfg.Cluster, ID: cfg.Node, Logger: s.log,
		Card: func() cluster.Card { return *m.card.Load() }, RTT: m.rtt, IsAlive: m.isAlive,
		Networks: m.far.networks, Withdrawn: tokens,
	}, cfg.Engine)
	if err != nil {
		return err
	}
	s.mesh = m
	tokens.OnChange(m.node.TellWithdrawn)
	s.relay.Neighbors().SetRoutes(m)
	m.node.Watch(m.watch)
	m.stop = s.relay.Neighbors().FollowNamespaces("", m.follow)
	s.tasks.Go(m.run)
	if m.far.monitor != nil {
		s.tasks.Go(func() { m.far.ask(s.relay.Drained()) })
	}
	s.log.Info("joined the cluster", "cluster", cfg.Cluster, "node", cfg.Node, "region", cfg.Region)
	return nil
}

// follow tells the cluster about the publishers of this process, and of those that it replaces.
func (m *mesh) follow(ns moqt.Namespace, published bool) {
	if published {
		m.node.Advertise(ns)
	} else {
		m.node.Withdraw(ns)
	}
}

// watch notes a change for run: the cluster must not be called back, and so not the relay either. A node may change
// routes faster than the relay takes that.
func (m *mesh) watch(c cluster.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	route := meshRoute{c.Node, c.Namespace.Key()}
	before, waits := m.changes[route]
	if known := c.Gone && !waits || before.known; known || !c.Gone {
		m.changes[route] = meshChange{c, known}
	} else {
		delete(m.changes, route)
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// run keeps the relay and the cluster informed about each other until the server drains.
func (m *mesh) run() {
	t := time.NewTicker(meshInterval)
	defer t.Stop()
	for {
		select {
		case <-m.changed:
			m.tellRelay()
		case <-t.C:
			now := m.cfg.now()
			if now.After(m.again) { // tracks whose feeder has gone have moved before
				m.again = now.Add(meshReroute)
				m.server.relay.Neighbors().Reroute()
			}
			m.look(now)
			m.far.look(now)
		case <-m.server.relay.Drained().Done():
			return
		}
	}
}

// tellRelay tells the relay about routes that have come or gone.
func (m *mesh) tellRelay() {
	m.mu.Lock()
	changes := m.changes
	m.changes = make(map[meshRoute]meshChange)
	m.mu.Unlock()
	for _, c := range changes {
		m.remote(c.Node, c.Namespace, !c.Gone)
	}
}

// Upstreams implements relay.Routes: the node that is preferred, and one that takes over when it does not answer. A
// process that was replaced hears of no changes: what it does not find there, the new process is asked for.
func (m *mesh) Upstreams(scope string, ns moqt.Namespace) (list []*relay.UpstreamRelay) {
	if scope == "" {
		list = m.ways(ns)
	}
	if scope == "" && m.yields.Load() {
		if u := m.relayOf(cluster.Choice{Node: m.cfg.Node, URL: m.cfg.URL}, true); u != nil {
			list = append(list, u)
		}
	}
	return append(list, m.static.Load().Upstreams(scope, ns)...)
}

func (m *mesh) ways(ns moqt.Namespace) (list []*relay.UpstreamRelay) {
	key := ns.String()
	current, _ := m.asked.Get(key)
	choices := m.node.Choices(ns, current)
	if len(choices) == 0 {
		return nil
	}
	m.asked.Add(key, choices[0].Node)
	up, connecting := 0, false
	for _, c := range choices {
		u := m.relayOf(c, !connecting)
		if u == nil {
			continue
		}
		list = append(list, u)
		switch st := u.Status(); {
		case st.Connected:
			up++
		case !st.Down && !st.Lost:
			connecting = true // no other one is dialed meanwhile: it might be there first, and feed the track
		}
		if up == meshWays {
			break
		}
	}
	return list
}

// relayOf returns the relay of a node, which it dials if that is wanted and was not done. It returns nil if there is
// none, or there are too many.
func (m *mesh) relayOf(c cluster.Choice, dial bool) *relay.UpstreamRelay {
	target := meshTarget{c.Node, c.URL}
	if c.Origin {
		target.url = originURL(c.URL)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dialed[target]
	if d == nil && dial {
		d = m.dialLocked(target)
	}
	if d == nil {
		return nil
	}
	d.used = m.cfg.now()
	return d.relay
}

func (m *mesh) dialLocked(t meshTarget) *dialedNode {
	if len(m.dialed) >= maxDialedNodes {
		m.log.Log(slog.LevelWarn, "full", "too many sessions with other nodes; some tracks do not come from there",
			"sessions", maxDialedNodes)
		return nil
	}
	up := &m.server.cfg.Upstream
	ctx, cancel := context.WithCancel(context.Background())
	// Where its clients should go does not count for this one: the cluster says whom to ask instead.
	u, err := m.server.upstreams.keep(ctx, relay.UpstreamRelayConfig{URL: t.url, Tokens: up.Tokens}, m.transport(), nil)
	if err != nil {
		cancel()
		m.log.Log(slog.LevelWarn, "dial", "a node of the cluster cannot be dialed", "node", t.node, "err", err)
		return nil
	}
	d := &dialedNode{relay: u, end: cancel}
	m.dialed[t] = d
	return d
}

// transport returns how nodes trust each other.
func (m *mesh) transport() transport.ClientConfig {
	if mutual := m.server.cfg.Transport.Mutual; mutual != nil {
		return transport.ClientConfig{Mutual: mutual}
	}
	return m.server.cfg.Upstream.Transport
}

// originURL returns the URL at which a node is asked as the origin.
func originURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	u.Path = relay.OriginPath
	return u.String()
}

// look closes the sessions that nothing needs, and describes the node and the others.
func (m *mesh) look(now time.Time) {
	card := &cluster.Card{URL: m.cfg.URL, Region: m.cfg.Region, Price: m.cfg.Price, Load: m.cfg.Load(now),
		ClientURL: m.cfg.ClientURL}
	rtts, alive := make(map[string]time.Duration), make(map[string]bool)
	fed := m.server.relay.Neighbors().CountFed() // before m.mu, which is taken while the relay holds its locks
	feeds := make(map[string]cluster.Feed)       // a node may be dialed as the origin, and as the parent
	m.mu.Lock()
	for t, d := range m.dialed {
		st := d.relay.Status()
		if st.Requests > 0 {
			d.used = now
		}
		if now.Sub(d.used) > meshIdle {
			d.end()
			delete(m.dialed, t)
			continue
		}
		alive[t.node] = alive[t.node] || st.Connected
		if rtt := rtts[t.node]; st.RTT > 0 && (rtt == 0 || st.RTT < rtt) {
			rtts[t.node] = st.RTT
		}
		if n := fed[d.relay]; st.Connected && n > 0 {
			feeds[t.node] = cluster.Feed{From: t.node, Tracks: feeds[t.node].Tracks + n}
		}
	}
	m.mu.Unlock()
	m.alive.Store(&alive)
	for node, rtt := range rtts {
		m.rtts.Add(node, measuredRTT{rtt, now})
	}
	for _, f := range feeds {
		f.RTT = rtts[f.From]
		card.Feeds = append(card.Feeds, f)
	}
	slices.SortFunc(card.Feeds, func(a, b cluster.Feed) int {
		return cmp.Or(cmp.Compare(b.Tracks, a.Tracks), strings.Compare(a.From, b.From))
	})
	card.Feeds = card.Feeds[:min(len(card.Feeds), cluster.MaxFeeds)]
	m.card.Store(card)
}

// isAlive reports whether there is a session with a node. The cluster may hear nothing of the node.
func (m *mesh) isAlive(node string) bool { return (*m.alive.Load())[node] }

// rtt returns the RTT of the session with a node, or of the last one if that is not long ago; 0 if there was none.
func (m *mesh) rtt(node string) time.Duration {
	if r, ok := m.rtts.Peek(node); ok && m.cfg.now().Sub(r.at) < meshRTTAge {
		return r.rtt
	}
	return 0
}

// leave ends the node. The others are told that it has no publishers any more, and should not be asked, unless another
// process of the relay becomes the node.
func (m *mesh) leave(replaced bool) {
	m.stop()
	end := m.node.Leave
	if replaced {
		end = m.node.Yield
		m.yields.Store(true)
	}
	if err := end(); err != nil {
		m.server.log.Log(context.Background(), slog.LevelWarn, "leave the cluster", "err", err)
	}
}

// Cluster returns the node, or nil if the server is not in a cluster.
func (s *Server) Cluster() *cluster.Node {
	if s.mesh == nil {
		return nil
	}
	return s.mesh.node
}

// ServeCluster answers a request with the status of the cluster.
func (s *Server) ServeCluster(w http.ResponseWriter, _ *http.Request) {
	if s.mesh == nil {
		http.Error(w, "the relay is not in a cluster; start it with --cluster or --cluster-url", http.StatusNotFound)
		return
	}
	writeJSON(w, s.mesh.node.Status())
}
