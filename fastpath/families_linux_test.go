package fastpath_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/transport"
)

// TestBothFamilies has a publisher over IPv4 with a subscriber over IPv6, and the other way round. The publisher's
// device leaves checksums to the relay's, as veth, virtio and containers do.
func TestBothFamilies(t *testing.T) {
	w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 2}})
	broadcasts, viewers := make(map[string]*broadcast), make(map[string]*viewer)
	for i, namespace := range []string{"from IPv4", "from IPv6"} {
		w.v6 = i == 1
		p, _ := w.publisherOf(namespace, w.lab.Publisher, "moqt")
		w.v6 = !w.v6
		s := w.connect(w.lab.Subscribers[i], "https", nil, transport.Limits{})
		viewers[namespace] = w.subscribe(s, trackOf(namespace, 0))
		broadcasts[namespace] = w.broadcast(<-p.subscribed)
	}
	group := uint64(0)
	w.forwards(func() {
		for range 10 {
			for _, b := range broadcasts {
				b.send(present(group, 1), 0, 0, 900, 800, 2700)
			}
			group++
		}
		for namespace, b := range broadcasts {
			w.expect(viewers[namespace], b, 0)
		}
	})
	require.Zero(t, w.report()["copy_checksum"])
}
