package fastpath_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
	"sluice/moqt"
	"sluice/transport"
)

// TestAcksAreTakenFromSubscribers publishes slowly. ACKs are taken all the time, on both transports, while keys are
// updated, and before and after the subscriber's address changes.
func TestAcksAreTakenFromSubscribers(t *testing.T) {
	for _, scheme := range []string{"moqt", "https"} {
		t.Run(scheme, func(t *testing.T) {
			useKeyUpdates(t, 100)
			w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 1}})
			p := w.publisher(scheme)
			v := w.subscribe(w.connect(w.lab.Subscribers[0], scheme, nil, transport.Limits{}), trackName(0))
			b := w.broadcast(<-p.subscribed)
			taken := func() uint64 {
				counts, err := w.fast.Counts()
				require.NoError(t, err)
				return counts["ack_taken"]
			}
			group := uint64(0)
			// send sends a group, and reports whether ACKs were taken meanwhile.
			send := func() bool {
				before := taken()
				b.send(moqt.SubgroupHeader{GroupID: group}, 0, 4*time.Millisecond, slices.Repeat([]int{500}, 100)...)
				group++
				return taken() > before
			}
			for range 4 {
				require.True(t, send(), "group %d", group)
			}
			require.NoError(t, w.lab.Subscribers[0].Devices[0].Link.Rebind())
			for !send() { // until the subscriber sends something, and the new path is validated
				require.Less(t, group, uint64(50))
			}
			for range 3 {
				require.True(t, send(), "group %d", group)
			}
			w.expect(v, b, 0)
			w.report()
			require.NotZero(t, w.loop.Stats().Counters.TakenAcks)
		})
	}
}
