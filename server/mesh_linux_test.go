package server

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/server/cluster/clustertest"
	"sluice/transport"
)

// TestMeshForwards sends a track from the origin through the parent of another region to an edge there. The kernel
// forwards it on all three. When the parent falls silent, the origin feeds the edge, and the kernel forwards on both.
func TestMeshForwards(t *testing.T) {
	skipShort(t)
	l := labtest.New(t, lab.Topology{Relays: 3, Subscribers: 1})
	var bus clustertest.Bus
	a := nodeAt(t, l.Relays[0], &bus, "west", "a")
	parent := nodeAt(t, l.Relays[1], &bus, "east", outranking("edge"))
	edge := nodeAt(t, l.Relays[2], &bus, "east", "edge")
	send := publishOn(t, joinFrom(t, l.Publisher, urlOf("moqt", l.Relays[0].Device("up"))), "video")
	for _, n := range []*meshNode{parent, edge} {
		n.knowsRoute(t, 1)
		await(t, "all nodes", func() bool { return len(n.Cluster().Status().Nodes) == 3 })
	}
	c := receiveOn(t, joinFrom(t, l.Subscribers[0], urlOf("https", l.Relays[2].Device("down"))), "video")
	next := forward(t, []*Server{a.Server, parent.Server, edge.Server}, 0, send, c)
	require.Zero(t, edge.askedOrigin())

	for _, d := range l.Relays[1].Devices {
		nothing, err := lab.ParseConditions("loss=100%")
		require.NoError(t, err)
		require.NoError(t, d.Link.Set(lab.ToHost, nothing))
		require.NoError(t, d.Link.Set(lab.FromHost, nothing))
	}
	last := []byte("the last of the parent")
	send(next, last)
	require.True(t, bytes.HasSuffix(c.await(t), last))
	await(t, "the origin feeds the edge", func() bool { return edge.askedOrigin() == 1 })
	forward(t, []*Server{a.Server, edge.Server}, next+1, send, c)
}

// nodeAt starts a node with the fast path at a host.
func nodeAt(t *testing.T, h *lab.Host, bus *clustertest.Bus, region, name string) *meshNode {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := Config{Listen: ":4443", FastPath: FastPathConfig{Mode: FastPathOn, Dials: true}}
	cfg.Transport.Certificate, cfg.Upstream.Transport.Insecure = &cert, true
	var s *Server
	require.NoError(t, h.Do(func() error {
		s, err = Listen(cfg)
		return err
	}))
	return joinNode(t, bus, s, ClusterConfig{Region: region, Node: name, URL: urlOf("moqt", h.Device("up"))})
}
