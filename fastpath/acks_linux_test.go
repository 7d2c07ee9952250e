package fastpath_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
	"sluice/internal/thorough"
	"sluice/moqt"
	"sluice/transport"
)

// TestAcksAreTakenFromSubscribers publishes slowly. ACKs are taken all the time, on both transports, while keys are
// updated, and before and after the client's address changes. make test has each transport with one way of dialing.
func TestAcksAreTakenFromSubscribers(t *testing.T) {
	for _, tt := range []struct {
		scheme string
		dialed dialed
	}{{"moqt", 0}, {"https", 0}, {"moqt", dialSubscribers}, {"https", dialSubscribers}} {
		t.Run(fmt.Sprintf("%s, %v", tt.scheme, tt.dialed), func(t *testing.T) {
			if (tt.scheme == "https") != (tt.dialed == dialSubscribers) {
				thorough.Only(t)
			}
			useKeyUpdates(t, 100)
			scheme := tt.scheme
			w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 1}, dialed: tt.dialed})
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
			rebind(w, rand.New(rand.NewPCG(1, 0)))
			for !send() { // until the client sends something, and the new path is validated
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
