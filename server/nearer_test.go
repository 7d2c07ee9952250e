package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
	"sluice/server/cluster"
	"sluice/server/cluster/clustertest"
	"sluice/transport"
)

// world has nodes whose clients may be nearer to another one, and whose clock goes as the test likes.
type world struct {
	bus   clustertest.Bus
	clock atomic.Int64 // added to the time of all nodes
	hosts byte
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) }

// node starts a node. Packets of clients take so long to it.
func (w *world) node(t *testing.T, name string, delay time.Duration) *meshNode {
	t.Helper()
	w.hosts++
	at := netip.AddrFrom4([4]byte{127, 0, 0, 100 + w.hosts})
	networkOf(t).links.Store(at, sim.Link{Delay: delay})
	s := listenNode(t, Config{Listen: netip.AddrPortFrom(at, 0).String()}, name)
	url := "moqt://" + s.Addr().String()
	return joinNode(t, &w.bus, s, ClusterConfig{Node: name, URL: url, ClientURL: url, now: w.now})
}

// wait lets time pass for the nodes until a condition holds.
func (w *world) wait(t *testing.T, what string, f func() bool) {
	t.Helper()
	await(t, what, func() bool {
		w.clock.Add(int64(50 * time.Millisecond))
		return f()
	})
}

// knows waits until a node knows that another one is near the network of the tests.
func (w *world) knows(t *testing.T, n *meshNode, other string) {
	t.Helper()
	w.wait(t, other+" is near", func() bool {
		to, ok := n.Cluster().Elsewhere().Nearer(cluster.NetworkOf(netip.MustParseAddr("127.0.0.1")), time.Second)
		return ok && to.Node == other
	})
}

// sent returns how many clients the node has sent elsewhere.
func (n *meshNode) sent() int { return int(n.mesh.far.count.Load()) }

// goaways gets the GOAWAY of a session.
type goaways struct {
	session.Unsupported
	got chan moqt.Goaway
}

func (g goaways) HandleGoaway(_ *session.Session, m moqt.Goaway) { g.got <- m }

// come connects a client that gets a GOAWAY, or none.
func come(t *testing.T, url string, cfg session.Config) (c *session.Session, got chan moqt.Goaway) {
	t.Helper()
	got = make(chan moqt.Goaway, 1)
	conn, err := transport.Dial(t.Context(), url,
		transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs(), ListenUDP: listenUDP(t)})
	require.NoError(t, err)
	target, err := transport.ParseURL(url)
	require.NoError(t, err)
	cfg.Handler, cfg.Authority, cfg.Path = goaways{got: got}, target.Authority, target.Path
	return runSessionAs(t, conn, cfg), got
}

// TestClientsThatStay has clients far from a node: one that another node has sent, one that does not name its
// implementation, a relay, and after a while one from an address whose other clients were sent.
func TestClientsThatStay(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		w := new(world)
		far, near := w.node(t, "far", 100*time.Millisecond), w.node(t, "near", time.Millisecond)
		farURL := far.mesh.cfg.ClientURL
		join(t, near.Server, nil)
		w.knows(t, far, "near")
		var stay []chan moqt.Goaway
		for _, c := range []struct {
			path string
			cfg  session.Config
		}{
			{"/app?token=x&" + sentMark, session.Config{}},
			{"/app", session.Config{Implementation: "-"}},
			{"/app", session.Config{HopID: 7}},
			{relay.OriginPath, session.Config{}},
		} {
			_, got := come(t, farURL+c.path, c.cfg)
			stay = append(stay, got)
		}
		var move []chan moqt.Goaway
		urls := []string{farURL + "/app?token=x", farURL, "https" + farURL[len("moqt"):] + "/app"}
		for _, url := range urls {
			_, got := come(t, url, session.Config{})
			move = append(move, got)
		}
		w.wait(t, "those that can go", func() bool { return far.sent() == len(move) })
		authority := near.mesh.cfg.ClientURL[len("moqt://"):]
		for i, want := range []string{
			"moqt://" + authority + "/app?token=x&" + sentMark, "moqt://" + authority + "/?" + sentMark,
			"https://" + authority + "/app?" + sentMark,
		} {
			require.Equal(t, moqt.Goaway{NewSessionURI: want}, <-move[i])
		}
		_, back := come(t, farURL, session.Config{})
		far.looksAgain(t, w)
		for _, got := range append(stay, back) {
			require.Empty(t, got)
		}
		w.clock.Add(int64(sentAgain))
		w.wait(t, "it may go by now", func() bool { return far.sent() == len(move)+1 })
		require.NotEmpty(t, <-back)
		for _, got := range stay {
			require.Empty(t, got)
		}
	})
}

// looksAgain waits until the node has looked at all its clients.
func (n *meshNode) looksAgain(t *testing.T, w *world) {
	t.Helper()
	w.clock.Add(int64(clientSettles))
	before := n.mesh.far.told.Load()
	w.wait(t, "another look", func() bool { return n.mesh.far.told.Load() != before })
}

// TestSentClientsAreLimited has more clients that are far away than a node sends elsewhere at a time.
func TestSentClientsAreLimited(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		w := new(world)
		far, near := w.node(t, "far", time.Millisecond), w.node(t, "near", time.Millisecond)
		join(t, near.Server, nil)
		w.knows(t, far, "near")
		for range maxSent + 2 {
			join(t, far.Server, nil)
		}
		await(t, "all clients", func() bool { return len(far.relay.Clients()) == maxSent+2 })
		clients := far.relay.Clients()
		for i := range clients {
			clients[i].MinRTT = time.Second
		}
		far.mesh.far.send(clients, w.now())
		require.Equal(t, maxSent, far.sent())
		far.mesh.far.send(clients, w.now())
		require.Equal(t, maxSent, far.sent(), "the others have the same address")
		far.mesh.far.send(clients, w.now().Add(sentAgain))
		require.Equal(t, maxSent+2, far.sent())
	})
}

// TestMonitor asks a monitor how far networks are.
func TestMonitor(t *testing.T) {
	t.Parallel()
	var bus clustertest.Bus
	var log logstest.Buffer
	broken := new(atomic.Bool)
	monitor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/rtt", r.URL.Path)
		if broken.Load() {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"networks":[
			{"prefix":"192.0.2.0/26","median_ns":5000000,"count":3,"age_ns":0},
			{"prefix":"192.0.2.64/26","median_ns":9000000,"count":3,"age_ns":0},
			{"prefix":"","median_ns":1,"count":1,"age_ns":0},
			{"prefix":"198.51.0.0/16","median_ns":9000000,"count":3,"age_ns":0},
			{"prefix":"2001:db8::/48","median_ns":7000000,"count":3,"age_ns":1000000000},
			{"prefix":"2001:db8:1::/48","median_ns":7000000,"count":3,"age_ns":3600000000000}]}`)
	}))
	t.Cleanup(monitor.Close)
	n := startNodeAs(t, &bus, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, ClusterConfig{
		Node: "a", ClientURL: "moqt://a.example", RTTs: monitor.URL,
	})
	await(t, "the networks", func() bool { return len(n.mesh.far.networks()) == 2 })
	require.Equal(t, cluster.Networks{
		netip.MustParsePrefix("192.0.2.0/24"):  5 * time.Millisecond,
		netip.MustParsePrefix("2001:db8::/48"): 7 * time.Millisecond,
	}, n.mesh.far.networks())
	broken.Store(true)
	require.ErrorContains(t, n.mesh.far.askOnce(t.Context()), "404")
	require.NotContains(t, log.String(), "the monitor does not tell")
}

// A page cannot go to another node, and would only be interrupted.
func TestPagesStay(t *testing.T) {
	for name, want := range map[string]bool{"": false, webPage: false, "moq-sub": true} {
		require.Equal(t, want, follows(name), "implementation %q", name)
	}
	page, err := os.ReadFile("../web/src/moqt/session.ts")
	require.NoError(t, err)
	require.Contains(t, string(page), `prefixed("`+webPage+`")`, "the page names itself so")
}
