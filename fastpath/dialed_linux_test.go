package fastpath_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/transport"
)

// TestRelayMoves gives the relay other addresses on the devices that lead to the peers that it has dialed. They learn
// of it from the relay's next packets, and the relay from theirs. Only on the path that it knows the socket's reader
// opens a subscriber's ACKs, and the kernel a publisher's packets. make test has all dialed, which is both of the
// others.
func TestRelayMoves(t *testing.T) {
	for d := dialPublisher; d <= dialAll; d++ {
		t.Run(d.String(), func(t *testing.T) {
			if d != dialAll {
				thorough.Only(t)
			}
			w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 1}, dialed: d})
			p := w.publisher("moqt")
			v := w.subscribe(w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{}), trackName(0))
			b := w.broadcast(<-p.subscribed)
			group := uint64(0)
			// send sends a group, and reports whether both paths were known meanwhile.
			send := func() bool {
				before, err := w.fast.Counts()
				require.NoError(t, err)
				acks := w.loop.Stats().Counters.ReadAcks
				b.send(present(group, 0), 0, 4*time.Millisecond, slices.Repeat([]int{500}, 100)...)
				group++
				after, err := w.fast.Counts()
				require.NoError(t, err)
				return after["frame_forwarded"] > before["frame_forwarded"]+50 &&
					w.loop.Stats().Counters.ReadAcks > acks
			}
			for !send() { // until paths and sizes are known
				require.Less(t, group, uint64(10))
			}
			for _, h := range []*lab.Host{w.lab.Publisher, w.lab.Subscribers[0]} {
				if w.dials(h) {
					require.NoError(t, w.lab.Relay.Facing(h).ChangeAddress())
				}
			}
			for !send() {
				require.Less(t, group, uint64(60))
			}
			w.expect(v, b, 0)
			w.report()
		})
	}
}
