package server

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay"
	"sluice/server/cluster/clustertest"
)

// costly has an edge that gets a track from one of two nodes, until that becomes dear.
type costly struct {
	edge         *meshNode
	clock        atomic.Int64 // added to the time of the edge
	first, other *meshNode    // the node that feeds the edge, and the one that should after that
	begin        func(group uint64) (add func(object uint64, payload []byte), end func())
	reference    streams // of a subscriber at another node
	got          streams
}

func (c *costly) now() time.Time { return time.Now().Add(time.Duration(c.clock.Load())) }

// startEdge starts the edge, which soon gives up what it does not need.
func (c *costly) startEdge(t *testing.T, bus *clustertest.Bus) {
	t.Helper()
	cfg := Config{Relay: relay.Config{Linger: 500 * time.Millisecond}}
	c.edge = startNodeAs(t, bus, cfg, ClusterConfig{Region: "east", Node: "edge", now: c.now})
}

// feeds reports whether a node is the only one that feeds the edge.
func (c *costly) feeds(n *meshNode) bool {
	feeds := c.edge.mesh.card.Load().Feeds
	return len(feeds) == 1 && feeds[0].From == n.mesh.cfg.Node
}

// group publishes a group of some objects while time passes, and lets the edge look again whom to ask.
func (c *costly) group(t *testing.T, g uint64) {
	t.Helper()
	add, end := c.begin(g)
	for object := range uint64(8) {
		add(object, fmt.Appendf(nil, "group %d, object %d.", g, object))
		time.Sleep(10 * time.Millisecond)
	}
	c.clock.Add(int64(meshReroute))
	end()
	want := string(c.reference.await(t))
	require.Contains(t, want, fmt.Sprintf("group %d, object 7.", g))
	require.Equal(t, want, string(c.got.await(t)))
}

// run publishes groups while a cost changes. Each arrives at the edge once, complete and in order.
func (c *costly) run(t *testing.T, change func()) {
	t.Helper()
	g := uint64(0)
	until := func(what string, f func() bool) {
		t.Helper()
		for limit := g + 300; !f(); g++ {
			require.Less(t, g, limit, what)
			c.group(t, g)
		}
	}
	until("the first node feeds the edge", func() bool { return c.feeds(c.first) })
	change()
	until("the other node feeds the edge", func() bool { return c.feeds(c.other) })
	c.group(t, g)
	require.Empty(t, c.got)
	require.Empty(t, c.reference)
}

// slowly makes a publisher of the track that sends its objects one by one.
func slowly(t *testing.T, s *Server) func(group uint64) (add func(uint64, []byte), end func()) {
	t.Helper()
	p, err := join(t, s, nil).Publish(t.Context(), moqt.Publish{
		Track: moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: "video"},
	})
	require.NoError(t, err)
	require.NoError(t, p.Wait(t.Context()))
	return func(group uint64) (func(uint64, []byte), func()) {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := p.OpenSubgroup(t.Context(), h)
		require.NoError(t, err)
		encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
		add := func(object uint64, payload []byte) {
			b, err := encoder.AppendObject(nil,
				moqt.ObjectHeader{ObjectID: object, PayloadLength: uint64(len(payload))})
			require.NoError(t, err)
			_, err = stream.Write(append(b, payload...))
			require.NoError(t, err)
		}
		return add, func() { require.NoError(t, stream.Close()) }
	}
}

// TestParentBecomesFull has a parent that feeds an edge when its load rises. The next parent goes on with the track.
func TestParentBecomesFull(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		var bus clustertest.Bus
		c := new(costly)
		names := ranked("edge", 2)
		var load atomic.Uint64
		a := startNode(t, &bus, "west", "a")
		c.first = startNodeAs(t, &bus, Config{}, ClusterConfig{
			Region: "east", Node: names[0], Load: func(time.Time) float64 { return math.Float64frombits(load.Load()) },
		})
		c.other = startNode(t, &bus, "east", names[1])
		c.startEdge(t, &bus)
		c.begin = slowly(t, a.Server)
		for _, n := range []*meshNode{c.first, c.other, c.edge} {
			n.knowsRoute(t, 1)
			await(t, "all nodes", func() bool { return len(n.Cluster().Status().Nodes) == 4 })
		}
		c.reference, c.got = receive(t, a.Server, "video"), receive(t, c.edge.Server, "video")
		c.run(t, func() { load.Store(math.Float64bits(0.95)) })
	})
}

// TestOriginBecomesFar has a track with two publishers, and a way to the nearer one that becomes longer.
func TestOriginBecomesFar(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		var bus clustertest.Bus
		c := new(costly)
		s := listenNode(t, Config{}, "a")
		w := newWire(t, s.Addr())
		c.first = joinNode(t, &bus, s, ClusterConfig{
			Region: "west", Node: "a", URL: "moqt://" + w.near.LocalAddr().String(),
		})
		c.other = startNodeAs(t, &bus, Config{}, ClusterConfig{Region: "west", Node: "b", Price: 2})
		c.startEdge(t, &bus)
		atFirst, atOther := slowly(t, c.first.Server), slowly(t, c.other.Server)
		c.begin = func(group uint64) (func(uint64, []byte), func()) {
			add, end := atFirst(group)
			addOther, endOther := atOther(group)
			return func(object uint64, payload []byte) {
					add(object, payload)
					addOther(object, payload)
				}, func() {
					end()
					endOther()
				}
		}
		c.edge.knowsRoute(t, 2)
		c.reference, c.got = receive(t, c.other.Server, "video"), receive(t, c.edge.Server, "video")
		c.run(t, func() { w.delay.Store(int64(100 * time.Millisecond)) })
	})
}
