package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
	"sluice/internal/logs/logstest"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
	"sluice/server/cluster"
	"sluice/server/cluster/clustertest"
	"sluice/transport"
)

// meshNode is a server in a cluster on a bus in memory.
type meshNode struct{ *Server }

// onBus runs a test of nodes in virtual time.
func onBus(t *testing.T, f func(*testing.T, *clustertest.Bus)) {
	t.Helper()
	virtual(t, func(t *testing.T) { f(t, new(clustertest.Bus)) })
}

// startNode starts a node. It ends with the test.
func startNode(t *testing.T, bus *clustertest.Bus, region, name string) *meshNode {
	t.Helper()
	return startNodeAs(t, bus, Config{}, ClusterConfig{Region: region, Node: name})
}

// startNodeAs is startNode with more of the configuration.
func startNodeAs(t *testing.T, bus *clustertest.Bus, cfg Config, c ClusterConfig) *meshNode {
	t.Helper()
	s := listenNode(t, cfg, c.Node)
	c.URL = fmt.Sprint("moqt://", s.Addr())
	return joinNode(t, bus, s, c)
}

func listenNode(t *testing.T, cfg Config, name string) *Server {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg.Listen, cfg.Transport.Certificate = cmp.Or(cfg.Listen, "127.0.0.1:0"), &cert
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil)).With("server", name)
	}
	cfg.FastPath.Mode, cfg.Upstream.Transport.Insecure = FastPathOff, cfg.Transport.Mutual == nil
	onNetwork(t, &cfg.Transport)
	s, err := Listen(cfg)
	require.NoError(t, err)
	return s
}

func joinNode(t *testing.T, bus *clustertest.Bus, s *Server, c ClusterConfig) *meshNode {
	t.Helper()
	if c.Load == nil {
		c.Load = func(time.Time) float64 { return 0 } // whatever else the machine does
	}
	c.Engine = bus.Engine(c.Node)
	require.NoError(t, s.JoinCluster(c))
	r := run(s)
	t.Cleanup(func() { r.end(t) })
	return &meshNode{s}
}

// await waits until a condition holds.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, time.Minute, 10*time.Millisecond, what)
}

// knowsRoute waits until a node knows who has the tracks of the tests.
func (n *meshNode) knowsRoute(t *testing.T, origins int) {
	t.Helper()
	await(t, "route", func() bool {
		found := 0
		for _, h := range n.Cluster().Choices(moqt.Namespace{"live"}, "") {
			if h.Origin {
				found++
			}
		}
		return found == origins
	})
}

// TestRoutesChangeFast has a node change routes faster than the relay takes that. No more waits than the relay has to
// know.
func TestRoutesChangeFast(t *testing.T) {
	knows := make(map[string]bool)
	m := &mesh{
		changes: make(map[meshRoute]meshChange), changed: make(chan struct{}, 1),
		remote: func(_ string, ns moqt.Namespace, published bool) { knows[ns[0]] = published },
	}
	change := func(field string, gone bool) {
		m.watch(cluster.Change{Node: "a", Namespace: moqt.Namespace{field}, Gone: gone})
	}
	change("stays", false)
	change("goes", false)
	m.tellRelay()
	for i := range 1000 {
		change(fmt.Sprint(i), false)
		change(fmt.Sprint(i), true)
		change("stays", true)
		change("stays", false)
	}
	change("goes", true)
	require.Len(t, m.changes, 2)
	m.tellRelay()
	require.Equal(t, map[string]bool{"stays": true, "goes": false}, knows)
}

// TestParentComes starts the node that should be the parent when the edge already gets the track from the origin.
func TestParentComes(t *testing.T) {
	t.Parallel()
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		a, edge := startNode(t, bus, "west", "a"), startNode(t, bus, "east", "edge")
		send := publish(t, a.Server, "video")
		edge.knowsRoute(t, 1)
		got := receive(t, edge.Server, "video")
		send(0, []byte("group 0"))
		require.Contains(t, string(got.await(t)), "group 0")
		await(t, "the origin feeds the edge", func() bool { return edge.askedOrigin() == 1 })

		parent := startNode(t, bus, "east", outranking("edge"))
		await(t, "the parent feeds the edge", func() bool {
			return parent.askedOrigin() == 1 && edge.askedOrigin() == 0
		})
		send(1, []byte("group 1"))
		require.Contains(t, string(got.await(t)), "group 1")
	})
}

// outranking returns the name of a node that is the parent of another one for the tracks of the tests.
func outranking(node string) string { return ranked(node, 1)[0] }

// ranked returns the names of n nodes that another one may ask as its parents, the preferred one first.
func ranked(node string, n int) (names []string) {
	origin := cluster.Peer{ID: "a", Region: "west"}
	var nodes []cluster.Peer
	for len(names) < n {
		nodes = append(nodes, cluster.Peer{ID: fmt.Sprint("p", len(nodes)), Region: "east"})
		names = nil
		for _, c := range cluster.Choices(
			cluster.Peer{ID: node, Region: "east"}, moqt.Namespace{"live"}, []cluster.Peer{origin}, nodes, "",
		) {
			if !c.Origin {
				names = append(names, c.Node)
			}
		}
	}
	return names
}

// TestPublisherIsReplaced lets a publisher end its track, and another one publish it at the same node a moment later.
// The other node hears that the route has gone before the subscription ends, and that it is there again before it may
// subscribe at that node again.
func TestPublisherIsReplaced(t *testing.T) {
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		a, b := startNode(t, bus, "", "a"), startNode(t, bus, "", "b")
		first, err := join(t, a.Server, nil).Publish(t.Context(), moqt.Publish{
			Track: moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: "video"},
		})
		require.NoError(t, err)
		require.NoError(t, first.Wait(t.Context()))
		b.knowsRoute(t, 1)
		got := receive(t, b.Server, "video")
		require.NoError(t, first.Done(moqt.DoneGoingAway, ""))
		time.Sleep(100 * time.Millisecond)
		send := publish(t, a.Server, "video")
		await(t, "a feeds b", func() bool { return a.subscribed() > 0 })
		send(0, []byte("x"))
		require.Contains(t, string(got.await(t)), "x")
	})
}

// TestPublisherIsReplacedAfterANode replaces the process of a node, and then the publisher at another one. The old
// process, which still has a subscriber, hears nothing of that, and asks the new one.
func TestPublisherIsReplacedAfterANode(t *testing.T) {
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		a, next := startNode(t, bus, "", "a"), listenNode(t, Config{}, "next")
		url := fmt.Sprint("moqt://", next.Addr()) // of both processes; it leads to this one now
		old := joinNode(t, bus, listenNode(t, Config{}, "old"), ClusterConfig{Node: "b", URL: url})
		publisher := join(t, a.Server, nil)
		send := publishOn(t, publisher, "video")
		old.knowsRoute(t, 1)
		got := receive(t, old.Server, "video")
		send(0, []byte("first"))
		require.Contains(t, string(got.await(t)), "first")
		publisher.Close(moqt.SessionNoError, "")
		old.knowsRoute(t, 0)
		old.mesh.leave(true)
		joinNode(t, bus, next, ClusterConfig{Node: "b", URL: url})
		send = publish(t, a.Server, "video")
		await(t, "a feeds the old process", func() bool { return a.subscribed() > 0 })
		send(1, []byte("second"))
		require.Contains(t, string(got.await(t)), "second")
	})
}

// subscribed counts the tracks to which other nodes are subscribed here.
func (n *meshNode) subscribed() (count int) {
	for _, s := range n.relay.Sessions() {
		if s.Path == relay.OriginPath && s.Ended == nil {
			count += s.Subscriptions
		}
	}
	return count
}

// TestNamespacesOfOtherNodes shows a subscriber the namespaces of the whole cluster.
func TestNamespacesOfOtherNodes(t *testing.T) {
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		a, b := startNode(t, bus, "", "a"), startNode(t, bus, "", "b")
		found := make(chan string, 10)
		_, err := join(t, b.Server, nil).SubscribeNamespace(t.Context(), moqt.SubscribeNamespace{},
			func(ns moqt.Namespace, published bool, _ moqt.Parameters) { found <- fmt.Sprint(ns, published) })
		require.NoError(t, err)
		p, err := join(t, a.Server, nil).PublishNamespace(t.Context(),
			moqt.PublishNamespace{Namespace: moqt.Namespace{"live", "x"}})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, fmt.Sprint(moqt.Namespace{"live", "x"}, true), <-found)
		p.Cancel(moqt.ResetCancelled)
		require.Equal(t, fmt.Sprint(moqt.Namespace{"live", "x"}, false), <-found)
	})
}

// TestMeshLimits asks for tracks of more nodes than a node may dial, and leaves the sessions alone after that.
func TestMeshLimits(t *testing.T) {
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		var log logstest.Buffer
		n := startNodeAs(t, bus, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, ClusterConfig{Node: "a"})
		const others = maxDialedNodes + 10
		from := bus.Engine("others")
		for i := range others {
			require.NoError(t, from.Publish(fmt.Sprint("sluice.sluice.beat.n", i),
				[]byte(`{"epoch":1,"version":0,"card":{"url":"moqt://127.0.0.1:9"}}`)))
			require.NoError(t, from.Publish(fmt.Sprintf("sluice.sluice.route.n%d.n%d", i, i),
				fmt.Appendf(nil, `{"epoch":1,"version":1,"namespace":"n%d"}`, i)))
		}
		bus.SetAway(true) // so that nobody dies
		await(t, "all nodes", func() bool { return len(n.Cluster().Status().Nodes) == others+1 })
		for i := range others {
			ns := moqt.Namespace{fmt.Sprint("n", i)}
			await(t, "route", func() bool { return len(n.Cluster().Choices(ns, "")) == 1 })
			n.mesh.Upstreams("", ns)
		}
		require.Len(t, n.mesh.dialed, maxDialedNodes)
		require.Contains(t, log.String(), "too many sessions with other nodes")
		require.Empty(t, n.mesh.Upstreams("other", moqt.Namespace{"n1"}), "routes are for the one scope")
		n.mesh.look(time.Now().Add(meshIdle + time.Second))
		require.Empty(t, n.mesh.dialed)
	})
}

// TestFeedsOfOneNode has two sessions with the same node, as the origin and as the parent: they are one feed.
func TestFeedsOfOneNode(t *testing.T) {
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		a, b := startNode(t, bus, "", "a"), startNode(t, bus, "", "b")
		send := publish(t, a.Server, "video")
		b.knowsRoute(t, 1)
		got := receive(t, b.Server, "video")
		send(0, []byte("x"))
		require.Contains(t, string(got.await(t)), "x")
		b.mesh.mu.Lock()
		for target, l := range maps.Clone(b.mesh.dialed) {
			b.mesh.dialed[meshTarget{target.node, "as the parent"}] = l
		}
		b.mesh.mu.Unlock()
		await(t, "the feed", func() bool {
			b.mesh.look(time.Now())
			feeds := b.mesh.card.Load().Feeds
			return len(feeds) == 1 && feeds[0].From == "a" && feeds[0].Tracks == 2 && feeds[0].RTT > 0
		})
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(b.Cluster())
		_, err := registry.Gather()
		require.NoError(t, err)
	})
}

// askedOrigin counts the requests of a node in sessions in which it asks others as the origin.
func (n *meshNode) askedOrigin() (count int) {
	n.mesh.mu.Lock()
	defer n.mesh.mu.Unlock()
	for target, l := range n.mesh.dialed {
		if strings.HasSuffix(target.url, relay.OriginPath) {
			count += l.relay.Status().Requests
		}
	}
	return count
}

// TestNodeWithUpstream has a node with an upstream relay that is in no cluster: it gets tracks from both.
func TestNodeWithUpstream(t *testing.T) {
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		upstream, a := start(t, Config{}), startNode(t, bus, "", "a")
		cfg := Config{}
		cfg.Upstream.Routes = []UpstreamRoute{{URLs: []string{"moqt://" + upstream.Addr().String()}}}
		b := startNodeAs(t, bus, cfg, ClusterConfig{Node: "b"})
		connected(t, b.Server, 1)
		sends := map[string]func(uint64, []byte){
			"here": publish(t, a.Server, "here"), "elsewhere": publish(t, upstream, "elsewhere"),
		}
		b.knowsRoute(t, 1)
		for name, send := range sends {
			got := receive(t, b.Server, name)
			send(0, []byte(name))
			require.Contains(t, string(got.await(t)), name)
		}
	})
}

// TestMeshProof has nodes with certificates of one authority, and one whose certificate is of another: they neither
// ask it nor answer it, and a subscriber cannot ask a node as the origin.
func TestMeshProof(t *testing.T) {
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		nodes, others := certtest.New(t), certtest.New(t)
		startOf := func(of *certtest.Authority, name string) *meshNode {
			f, cfg := of.Issue(t), Config{}
			cfg.Transport.Mutual = &transport.MutualTLS{CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key}
			return startNodeAs(t, bus, cfg, ClusterConfig{Node: name})
		}
		a, b := startOf(nodes, "a"), startOf(nodes, "b")
		send := publish(t, a.Server, "video")
		b.knowsRoute(t, 1)
		got := receive(t, b.Server, "video")
		send(0, []byte("x"))
		require.Contains(t, string(got.await(t)), "x")
		require.Equal(t, 1, a.subscribed())

		stranger := startOf(others, "stranger")
		stranger.knowsRoute(t, 1)
		stranger.mesh.Upstreams("", moqt.Namespace{"live"})
		await(t, "the stranger is refused", func() bool {
			s := stranger.Server.upstreams.status()
			return len(s) == 1 && !s[0].Connected && strings.Contains(s[0].Error, "not trusted")
		})

		conn, err := transport.Dial(t.Context(), "https://"+a.Addr().String()+relay.OriginPath,
			transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs(), ListenUDP: listenUDP(t)})
		require.NoError(t, err)
		subscriber, err := session.New(conn, session.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		require.ErrorContains(t, subscriber.Run(t.Context()), "prove by a certificate")
		require.Equal(t, 1, a.subscribed())
	})
}

// silentParent has a track that a parent feeds to an edge, until its host vanishes, while the origin stands by.
type silentParent struct {
	edge      *meshNode
	clock     atomic.Int64 // added to the time of the edge
	send      func(uint64, []byte)
	got       streams
	up, spare meshTarget // how the edge reaches the parent, and the origin
}

func newSilentParent(t *testing.T) *silentParent {
	t.Helper()
	var bus clustertest.Bus
	p := new(silentParent)
	a := startNode(t, &bus, "west", "a")
	p.edge = startNodeAs(t, &bus, withoutIdleTimeout(), ClusterConfig{
		Region: "east", Node: "edge", now: func() time.Time { return time.Now().Add(time.Duration(p.clock.Load())) },
	})
	name := outranking("edge")
	cfg := withoutIdleTimeout()
	cfg.Listen = apart + ":0"
	s := listenNode(t, cfg, name)
	p.up = meshTarget{name, fmt.Sprint("moqt://", s.Addr())}
	p.spare = meshTarget{"a", originURL(fmt.Sprint("moqt://", a.Addr()))}
	parent := joinNode(t, &bus, s, ClusterConfig{Region: "east", Node: name, URL: p.up.url})
	p.send = publish(t, a.Server, "video")
	parent.knowsRoute(t, 1)
	p.edge.knowsRoute(t, 1)
	await(t, "all nodes", func() bool { return len(p.edge.Cluster().Status().Nodes) == 3 })
	p.got = receive(t, p.edge.Server, "video")
	p.send(0, []byte("group 0"))
	require.Contains(t, string(p.got.await(t)), "group 0")
	await(t, "the parent feeds the edge, and the origin stands by", func() bool {
		return p.status(p.up).Requests == 1 && p.status(p.spare).Connected && p.edge.askedOrigin() == 0
	})
	return p
}

// status returns the status of a session of the edge, or nothing if there is none.
func (p *silentParent) status(target meshTarget) (st relay.UpstreamStatus) {
	p.edge.mesh.mu.Lock()
	defer p.edge.mesh.mu.Unlock()
	if l := p.edge.mesh.dialed[target]; l != nil {
		st = l.relay.Status()
	}
	return st
}

// ticks waits until the edge has looked at its sessions.
func (p *silentParent) ticks(t *testing.T) {
	t.Helper()
	before := p.edge.mesh.card.Load()
	await(t, "a look at the sessions", func() bool { return p.edge.mesh.card.Load() != before })
}

// TestStandByLasts lets the edge get a track for much longer than a session is kept that no track needs. After that,
// the parent falls silent.
func TestStandByLasts(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		p := newSilentParent(t)
		for range 3 {
			p.clock.Add(int64(meshIdle + time.Second))
			p.ticks(t)
			require.True(t, p.status(p.spare).Connected)
		}
		networkOf(t).Kill(netip.MustParseAddr(apart))
		p.send(1, []byte("group 1"))
		require.Contains(t, string(p.got.await(t)), "group 1")
	})
}

// TestParentFallsSilent has a parent vanish while nobody stands by. The edge turns to the origin at once: it does
// not wait until it is known that no new session with the parent can be established.
func TestParentFallsSilent(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		p := newSilentParent(t)
		m := p.edge.mesh
		p.ticks(t)
		p.clock.Add(-int64(time.Hour)) // so that it does not look again whom to ask
		p.ticks(t)
		require.False(t, p.status(p.up).Lost)
		m.mu.Lock()
		m.dialed[p.spare].end()
		delete(m.dialed, p.spare)
		networkOf(t).Kill(netip.MustParseAddr(apart))
		m.mu.Unlock()
		await(t, "the loss", func() bool { return p.status(p.up).Lost })
		await(t, "the origin", func() bool { return p.status(p.spare).Connected || p.status(p.up).Down })
		require.True(t, p.status(p.spare).Connected)
		p.send(1, []byte("group 1"))
		require.Contains(t, string(p.got.await(t)), "group 1")
	})
}

// TestNodeWithASessionIsAlive looks at a node while there is a session with it, and when it falls silent.
func TestNodeWithASessionIsAlive(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		p := newSilentParent(t)
		m := p.edge.mesh
		await(t, "the parent is alive", func() bool { return m.isAlive(p.up.node) })
		require.True(t, m.isAlive("a"), "it stands by")
		require.False(t, m.isAlive("edge"))
		networkOf(t).Kill(netip.MustParseAddr(apart))
		await(t, "the parent is not known to be alive", func() bool { return !m.isAlive(p.up.node) })
		require.True(t, m.isAlive("a"))
	})
}

// TestRTTIsRemembered looks at the cost of a node after the session with it was closed.
func TestRTTIsRemembered(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		p := newSilentParent(t)
		m := p.edge.mesh
		await(t, "RTT", func() bool { return m.rtt("a") > 0 })
		m.mu.Lock()
		m.dialed[p.spare].end()
		delete(m.dialed, p.spare)
		m.mu.Unlock()
		m.look(m.cfg.now())
		require.NotZero(t, m.rtt("a"))
		p.clock.Add(int64(meshRTTAge))
		require.Zero(t, m.rtt("a"), "it may be tried again")
	})
}
