package cluster_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/hostile"
	"sluice/moqt"
	"sluice/server/cluster"
	"sluice/server/cluster/clustertest"
)

// world is a cluster on one bus, in the fake time of synctest.
type world struct {
	t      *testing.T
	bus    clustertest.Bus
	log    bytes.Buffer
	logger *slog.Logger
}

// node is a node, with the routes of the others that it was told of.
type node struct {
	*cluster.Node
	engine cluster.Engine
	mu     sync.Mutex
	routes map[string]bool // "node namespace"
	news   int             // changes that it was told of
	of     map[string]int  // these, by route
}

func (w *world) join(id string) *node { return w.joinAt(id, "moqt://"+id+":4443") }

func (w *world) joinAt(id, url string) *node {
	n := &node{engine: w.bus.Engine(id), routes: make(map[string]bool), of: make(map[string]int)}
	cfg := cluster.Config{
		ID: id, Card: func() cluster.Card { return cluster.Card{URL: url} }, Logger: w.logger,
	}
	var err error
	n.Node, err = cluster.Join(cfg, n.engine)
	require.NoError(w.t, err)
	n.Watch(n.changed)
	return n
}

func (n *node) changed(c cluster.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.news++
	key := c.Node + " " + c.Namespace.String()
	n.of[key]++
	if c.Gone == !n.routes[key] {
		panic(fmt.Sprint("change without a change: ", c))
	}
	if n.routes[key] = !c.Gone; c.Gone {
		delete(n.routes, key)
	}
}

// known returns the routes that the node was told of, in order.
func (n *node) known() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.routes))
}

// changes returns how often the node was told of routes with a prefix.
func (n *node) changes(prefix string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, times := range n.of {
		if strings.HasPrefix(key, prefix) {
			count += times
		}
	}
	return count
}

// die ends the node without a goodbye.
func (n *node) die() {
	_ = n.engine.Close()
	_ = n.Leave()
}

func leave(nodes ...*node) {
	for _, n := range nodes {
		_ = n.Leave()
	}
}

// inTime runs a test in fake time, with a cluster.
func inTime(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.logger = slog.New(slog.NewTextHandler(&w.log, nil))
		f(w)
	})
}

var (
	live  = moqt.Namespace{"live"}
	liveA = moqt.Namespace{"live", "a"}
	liveB = moqt.Namespace{"live", "b"}
)

func TestRoutes(t *testing.T) {
	inTime(t, func(w *world) {
		a := w.join("a")
		a.Advertise(liveA)
		b := w.join("b")
		time.Sleep(time.Second)
		require.Equal(t, []string{"a live-a"}, b.known(), "a node that joins gets a snapshot")

		a.Advertise(liveB)
		b.Advertise(liveB)
		synctest.Wait()
		require.Equal(t, []string{"a live-a", "a live-b"}, b.known(), "at once")
		require.Equal(t, []string{"b live-b"}, a.known())

		a.Advertise(liveB) // again
		a.Withdraw(liveB)
		a.Withdraw(liveB)
		synctest.Wait()
		require.Equal(t, []string{"a live-a"}, b.known())

		c := w.join("c")
		c.Watch(func(cluster.Change) {})
		time.Sleep(time.Second)
		require.Equal(t, []string{"a live-a", "b live-b"}, c.known())
		var late []string
		c.Watch(func(ch cluster.Change) { late = append(late, ch.Node) })
		require.ElementsMatch(t, []string{"a", "b"}, late, "who watches late is told what there is")

		require.NoError(t, a.Leave())
		synctest.Wait()
		require.Equal(t, []string{"b live-b"}, c.known(), "a node that leaves says so")
		leave(b, c)
	})
}

func TestRoutesOfPrefix(t *testing.T) {
	inTime(t, func(w *world) {
		a, b := w.join("a"), w.join("b")
		a.Advertise(live)
		b.Advertise(moqt.Namespace{})
		c := w.join("c")
		time.Sleep(time.Second)
		nodesFor := func(ns moqt.Namespace) (nodes []string) {
			for _, h := range c.Choices(ns, "") {
				require.True(t, h.Origin)
				require.Equal(t, "moqt://"+h.Node+":4443", h.URL)
				nodes = append(nodes, h.Node)
			}
			return nodes
		}
		require.ElementsMatch(t, []string{"a", "b"}, nodesFor(liveA))
		require.ElementsMatch(t, []string{"a", "b"}, nodesFor(live))
		require.Equal(t, []string{"b"}, nodesFor(moqt.Namespace{"livestream"}), "a field is not a prefix of another")
		require.Equal(t, []string{"b"}, nodesFor(moqt.Namespace{"li-ve"}))
		require.Equal(t, []string{"b"}, nodesFor(nil))
		leave(a, b, c)
	})
}

func TestDeath(t *testing.T) {
	inTime(t, func(w *world) {
		a, b, c := w.join("a"), w.join("b"), w.join("c")
		a.Advertise(liveA)
		c.Advertise(liveB)
		time.Sleep(time.Second)
		a.die()
		time.Sleep(cluster.Lease - cluster.Beat)
		require.Contains(t, b.known(), "a live-a")
		time.Sleep(cluster.Beat + cluster.Beat/2)
		require.Equal(t, []string{"c live-b"}, b.known())
		synctest.Wait()
		require.Contains(t, w.log.String(), "a node of the cluster is dead")
		require.Len(t, b.Status().Nodes, 2)

		again := w.join("a") // a process that has started again
		again.Advertise(liveB)
		time.Sleep(time.Second)
		require.Equal(t, []string{"a live-b", "c live-b"}, b.known())
		leave(b, c, again)
	})
}

// TestStall is about a node that was silent for too long, and goes on.
func TestStall(t *testing.T) {
	inTime(t, func(w *world) {
		a, b := w.join("a"), w.join("b")
		a.Advertise(liveA)
		synctest.Wait()
		w.bus.SetLose(func(_, subject string) bool { return strings.Contains(subject, ".a") })
		time.Sleep(2 * cluster.Lease)
		require.Empty(t, b.known())
		w.bus.SetLose(nil)
		time.Sleep(3 * time.Second)
		require.Equal(t, []string{"a live-a"}, b.known())
		leave(a, b)
	})
}

func TestEngineAway(t *testing.T) {
	inTime(t, func(w *world) {
		const size = 20
		var nodes []*node
		for i := range size {
			n := w.join(fmt.Sprint("n", i))
			n.Advertise(moqt.Namespace{"live", fmt.Sprint(i)})
			nodes = append(nodes, n)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		news := nodes[0].news
		asks, snapshots := counts(nodes)

		w.bus.SetAway(true)
		time.Sleep(time.Minute)
		require.Len(t, nodes[0].known(), size-1, "known routes stay")
		require.Len(t, nodes[0].Choices(moqt.Namespace{"live", "7"}, ""), 1)
		nodes[1].Advertise(liveA)
		nodes[2].die()

		before := w.bus.Messages()
		w.bus.SetAway(false)
		time.Sleep(cluster.Lease + 2*time.Second)
		known := nodes[0].known()
		require.Contains(t, known, "n1 live-a")
		require.NotContains(t, known, "n2 live-2")
		synctest.Wait()
		require.Equal(t, news+2, nodes[0].news, "nothing else has changed")
		asksAfter, snapshotsAfter := counts(nodes)
		require.LessOrEqual(t, asksAfter-asks, uint64(size), "only for the routes of n1")
		require.LessOrEqual(t, snapshotsAfter-snapshots, uint64(size), "only of n1")
		require.Less(t, w.bus.Messages()-before, 6*size*size+2*size*size, "the beats of five seconds, and a little")
		leave(nodes...)
	})
}

// TestDeaf is about a node that hears nothing, although its engine is there: a connection may be dead for seconds
// before it is closed. The node goes on with the routes it knows, unless the others stay silent for long.
func TestDeaf(t *testing.T) {
	inTime(t, func(w *world) {
		a, b, c := w.join("a"), w.join("b"), w.join("c")
		a.Advertise(liveA)
		c.Advertise(liveB)
		both := []string{"a live-a", "c live-b"}
		time.Sleep(time.Second)
		for range 3 {
			w.bus.SetLose(func(to, _ string) bool { return to == "b" })
			time.Sleep(20 * time.Second)
			require.Equal(t, both, b.known())
			w.bus.SetLose(nil)
			time.Sleep(2 * time.Second)
			require.Equal(t, both, b.known())
		}
		require.Equal(t, 2, b.news)
		a.die()
		c.die()
		time.Sleep(cluster.AloneFor)
		require.Equal(t, both, b.known())
		time.Sleep(2 * cluster.Lease)
		require.Empty(t, b.known())
		leave(b)
	})
}

// TestSignsOfLife has a node whose messages get lost, and that is known to be alive.
func TestSignsOfLife(t *testing.T) {
	inTime(t, func(w *world) {
		alive := true
		a := w.join("a")
		a.Advertise(liveA)
		b, err := cluster.Join(cluster.Config{
			ID: "b", Card: func() cluster.Card { return cluster.Card{URL: "moqt://b"} }, Logger: w.logger,
			IsAlive: func(node string) bool { return alive && node == "a" },
		}, w.bus.Engine("b"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		w.bus.SetLose(func(_, subject string) bool { return strings.HasSuffix(subject, ".a") })
		time.Sleep(time.Minute)
		require.Len(t, b.Choices(liveA, ""), 1)
		b.Withdraw(liveA) // the lock makes the change of alive safe
		alive = false
		time.Sleep(cluster.Lease - time.Second)
		require.Len(t, b.Choices(liveA, ""), 1, "a session that was lost may come back")
		time.Sleep(2 * time.Second)
		require.Empty(t, b.Choices(liveA, ""))
		require.NoError(t, b.Leave())
		leave(a)
	})
}

// TestAlone is about a node whose engine has lost all others: they are dead if none comes back.
func TestAlone(t *testing.T) {
	inTime(t, func(w *world) {
		a, b := w.join("a"), w.join("b")
		a.Advertise(liveA)
		time.Sleep(time.Second)
		for range 3 {
			w.bus.SetAlone(true)
			time.Sleep(cluster.AloneFor - 5*time.Second)
			require.Equal(t, []string{"a live-a"}, b.known(), "they may be cut off")
			require.False(t, b.Status().Engine)
			w.bus.SetAlone(false)
			time.Sleep(time.Second)
		}
		a.die()
		w.bus.SetAlone(true)
		time.Sleep(cluster.AloneFor - 5*time.Second)
		require.Equal(t, []string{"a live-a"}, b.known())
		time.Sleep(cluster.Lease + 6*time.Second)
		require.Empty(t, b.known())
		require.Empty(t, b.Choices(liveA, ""))
		leave(b)
	})
}

// counts returns how many asks and snapshots nodes have sent.
func counts(nodes []*node) (asks, snapshots uint64) {
	for _, n := range nodes {
		asks += n.Counts().Asks
		snapshots += n.Counts().Snapshots
	}
	return asks, snapshots
}

// TestLoss changes routes while messages get lost, nodes die and join. In the end all know the same.
func TestLoss(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inTime(t, func(w *world) { w.loseAndSettle(rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func (w *world) loseAndSettle(r *rand.Rand) {
	var mu sync.Mutex // of r, which the bus uses on several goroutines
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	w.bus.SetLose(func(string, string) bool { return random(4) == 0 })
	const size = 5
	nodes, own := make([]*node, size), make([]map[string]bool, size)
	join := func(i int) { nodes[i], own[i] = w.join(fmt.Sprint("n", i)), make(map[string]bool) }
	for i := range size {
		join(i)
	}
	for range 500 {
		i, field := random(size), fmt.Sprint(random(10))
		switch ns := (moqt.Namespace{"live", field}); {
		case random(50) == 0:
			nodes[i].die()
			join(i)
		case own[i][field]:
			nodes[i].Withdraw(ns)
			delete(own[i], field)
		default:
			nodes[i].Advertise(ns)
			own[i][field] = true
		}
		time.Sleep(time.Duration(random(200)) * time.Millisecond)
	}
	w.bus.SetLose(nil)
	time.Sleep(2 * cluster.Lease)
	for i, n := range nodes {
		var want []string
		for j := range nodes {
			for field := range own[j] {
				if j != i {
					want = append(want, fmt.Sprintf("n%d live-%s", j, field))
				}
			}
		}
		slices.Sort(want)
		require.Equal(w.t, want, n.known(), "node %d", i)
	}
	leave(nodes...)
}

// TestSnapshotsForMany is about many nodes that ask at once: they share one snapshot.
func TestSnapshotsForMany(t *testing.T) {
	inTime(t, func(w *world) {
		const size = 50
		var nodes []*node
		for i := range size {
			nodes = append(nodes, w.join(fmt.Sprint("n", i)))
		}
		time.Sleep(5 * time.Second)
		_, before := counts(nodes)
		w.bus.SetLose(func(_, subject string) bool { return strings.Contains(subject, ".route.") })
		nodes[0].Advertise(liveA)
		synctest.Wait()
		w.bus.SetLose(nil)
		time.Sleep(5 * time.Second)
		for _, n := range nodes[1:] {
			require.Equal(t, []string{"n0 live-a"}, n.known())
		}
		_, after := counts(nodes)
		require.LessOrEqual(t, after-before, uint64(20))
		leave(nodes...)
	})
}

// TestHostileNode has a node that sends whatever it likes under its own name, a hundred times a second. Others do not
// notice: neither their routes nor how much they send depends on it, and their logs do not fill.
func TestHostileNode(t *testing.T) {
	const duration = 30 * time.Second
	for _, attack := range hostile.NodeAttacks {
		t.Run(attack.Name, func(t *testing.T) {
			inTime(t, func(w *world) {
				a, b := w.join("a"), w.join("b")
				a.Advertise(liveA)
				b.Advertise(liveB)
				time.Sleep(time.Second)
				h := w.bus.Engine("h")
				for i := range uint64(duration / (10 * time.Millisecond)) {
					subject, data := attack.Message("h", i)
					require.NoError(t, h.Publish("sluice.sluice."+subject, []byte(data)))
					time.Sleep(10 * time.Millisecond)
				}
				synctest.Wait()
				require.Contains(t, a.known(), "b live-b")
				require.Contains(t, b.known(), "a live-a")
				for _, n := range []*node{a, b} {
					require.Equal(t, 1, n.changes("a ")+n.changes("b "))
					c := n.Counts()
					// A beat each second, a question each two at most, and an answer of one part at each tick.
					require.LessOrEqual(t, c.Messages, uint64(duration/time.Second)*(1+1+5)+10)
				}
				require.LessOrEqual(t, strings.Count(w.log.String(), "\n"), 30)
				require.NoError(t, h.Close())
				time.Sleep(11 * cluster.Lease)
				require.Equal(t, []string{"b live-b"}, a.known())
				leave(a, b)
			})
		})
	}
}

// TestLargeSnapshot has more routes than one message holds.
func TestLargeSnapshot(t *testing.T) {
	inTime(t, func(w *world) {
		a := w.join("a")
		const size = 5000
		for i := range size {
			a.Advertise(moqt.Namespace{strings.Repeat("long", 20), fmt.Sprint(i)})
		}
		b := w.join("b")
		time.Sleep(time.Second)
		require.Len(t, b.known(), size)
		require.Zero(t, b.Counts().Asks)

		// A part of the next one gets lost.
		w.bus.SetLose(func(_, subject string) bool { return strings.Contains(subject, ".route.") })
		a.Withdraw(moqt.Namespace{strings.Repeat("long", 20), "7"})
		parts := 0
		w.bus.SetLose(func(_, subject string) bool {
			if strings.Contains(subject, ".snap.") {
				parts++
			}
			return parts == 2
		})
		time.Sleep(10 * time.Second)
		require.Len(t, b.known(), size-1)
		leave(a, b)
	})
}

func TestSameName(t *testing.T) {
	inTime(t, func(w *world) {
		a := w.join("a")
		time.Sleep(time.Second)
		replacement := w.join("a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NotContains(t, w.log.String(), "has the name of this one")
		b := w.joinAt("a", "moqt://elsewhere")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Contains(t, w.log.String(), "another node of the cluster has the name of this one")
		leave(a, replacement, b)
	})
}

// TestYield lets another process become a node. The others do not lose its routes meanwhile, unless it does not come.
func TestYield(t *testing.T) {
	inTime(t, func(w *world) {
		a, b := w.join("a"), w.join("b")
		a.Advertise(liveA)
		time.Sleep(time.Second)
		require.NoError(t, a.Yield())
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"a live-a"}, b.known())
		successor := w.join("a")
		successor.Advertise(liveA)
		time.Sleep(time.Second)
		require.Equal(t, []string{"a live-a"}, b.known())
		require.NotContains(t, w.log.String(), "has left")

		require.NoError(t, successor.Yield())
		time.Sleep(cluster.Lease + time.Second)
		require.Empty(t, b.known())
		leave(b)
	})
}

// TestNearerNodes has a node that tells how far networks are, until it does not know any more, or leaves.
func TestNearerNodes(t *testing.T) {
	inTime(t, func(w *world) {
		network := cluster.NetworkOf(netip.MustParseAddr("192.0.2.7"))
		var known atomic.Pointer[cluster.Networks]
		known.Store(new(cluster.Networks))
		near, err := cluster.Join(cluster.Config{ID: "near", Logger: w.logger, Card: func() cluster.Card {
			return cluster.Card{URL: "moqt://near:4443", ClientURL: "moqt://near.example"}
		}, Networks: func() cluster.Networks { return *known.Load() }}, w.bus.Engine("near"))
		require.NoError(t, err)
		far := w.join("far")
		takesNone, err := cluster.Join(cluster.Config{ID: "takes-none", Logger: w.logger, Card: func() cluster.Card {
			return cluster.Card{URL: "moqt://takes-none:4443"}
		}, Networks: func() cluster.Networks { return cluster.Networks{network: time.Millisecond} }},
			w.bus.Engine("takes-none"))
		require.NoError(t, err)
		sends := func() bool {
			_, ok := far.Elsewhere().Nearer(network, 100*time.Millisecond)
			return ok
		}
		time.Sleep(time.Minute)
		require.False(t, sends())

		known.Store(&cluster.Networks{network: 10 * time.Millisecond})
		time.Sleep(time.Second)
		to, ok := far.Elsewhere().Nearer(network, 100*time.Millisecond)
		require.True(t, ok)
		require.Equal(t, cluster.ClientAt{Node: "near", URL: "moqt://near.example", RTT: 10 * time.Millisecond}, to)
		_, ok = far.Elsewhere().Nearer(cluster.NetworkOf(netip.MustParseAddr("198.51.100.1")), 100*time.Millisecond)
		require.False(t, ok, "another network")
		time.Sleep(10 * time.Minute)
		require.True(t, sends(), "it is told again")

		known.Store(new(cluster.Networks))
		time.Sleep(2 * time.Minute)
		require.False(t, sends(), "that was long ago")

		known.Store(&cluster.Networks{network: 10 * time.Millisecond})
		time.Sleep(time.Second)
		require.True(t, sends())
		require.NoError(t, near.Leave())
		synctest.Wait()
		require.False(t, sends())
		require.NoError(t, takesNone.Leave())
		leave(far)
	})
}

func TestJoinRefuses(t *testing.T) {
	card := func() cluster.Card { return cluster.Card{URL: "moqt://a:4443"} }
	for name, cfg := range map[string]cluster.Config{
		"no card":   {ID: "a"},
		"no name":   {Card: card},
		"name":      {ID: "a.b", Card: card},
		"cluster":   {ID: "a", Cluster: "x y", Card: card},
		"no URL":    {ID: "a", Card: func() cluster.Card { return cluster.Card{} }},
		"other URL": {ID: "a", Card: func() cluster.Card { return cluster.Card{URL: "a"} }},
		"escape":    {ID: "a", Card: func() cluster.Card { return cluster.Card{URL: "moqt://a/\x1b[2J"} }},
		"query":     {ID: "a", Card: func() cluster.Card { return cluster.Card{URL: "moqt://a/?secret"} }},
		"load":      {ID: "a", Card: func() cluster.Card { return cluster.Card{URL: "moqt://u", Load: 2} }},
		"price":     {ID: "a", Card: func() cluster.Card { return cluster.Card{URL: "moqt://u", Price: -1} }},
		"client URL": {ID: "a", Card: func() cluster.Card {
			return cluster.Card{URL: "moqt://u", ClientURL: "https://u/path"}
		}},
		"region": {ID: "a", Card: func() cluster.Card { return cluster.Card{URL: "moqt://u", Region: "*"} }},
		"too many feeds": {ID: "a", Card: func() cluster.Card {
			return cluster.Card{URL: "moqt://u", Feeds: feeds(65)}
		}},
		"feeds of a node": {ID: "a", Card: func() cluster.Card {
			return cluster.Card{URL: "moqt://u", Feeds: append(feeds(2), cluster.Feed{From: "n1"})}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var bus clustertest.Bus
			_, err := cluster.Join(cfg, bus.Engine("a"))
			require.Error(t, err)
		})
	}
}

// feeds returns feeds from as many nodes.
func feeds(count int) (list []cluster.Feed) {
	for i := range count {
		list = append(list, cluster.Feed{From: fmt.Sprint("n", i)})
	}
	return list
}
