package fastpath_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/congestion"
	"sluice/lab"
	"sluice/media"
	"sluice/relay"
	"sluice/transport"
)

// TestECN puts a subscriber behind a link that marks packets instead of dropping them: its stock QUIC counts the marks
// of the packets of both senders, and nothing is sent again.
func TestECN(t *testing.T) {
	for _, controller := range []string{"cubic", "prague"} {
		t.Run(controller, func(t *testing.T) {
			t.Parallel() // they mostly wait
			testECN(t, congestion.Controllers[controller])
		})
	}
}

func testECN(t *testing.T, controller func(mtu int) congestion.Controller) {
	delay := lab.Conditions{Delay: 5 * time.Millisecond}
	w := newWorld(t, worldConfig{
		topology: lab.Topology{Subscribers: 1, Downlink: delay}, budget: relay.FastPathBudget(0),
		sender: media.SenderConfig{NewController: controller},
	})
	p := w.publisher("moqt")
	v := w.subscribe(w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{}), trackName(0))
	b := w.broadcast(<-p.subscribed)
	group := uint64(0)
	send := func() {
		b.send(present(group, 1), 0, 40*time.Millisecond, slices.Repeat([]int{8000}, 12)...)
		w.expect(v, b, group)
		group++
	}
	send()
	require.Zero(t, w.loop.Stats().Counters.CongestedPackets)

	marking := lab.Conditions{Delay: 5 * time.Millisecond, Mark: 0.1}
	require.NoError(t, w.lab.Subscribers[0].Devices[0].Link.Set(lab.ToHost, marking))
	for range 3 {
		send()
	}
	counters := w.loop.Stats().Counters
	require.NotZero(t, counters.ForwarderPackets)
	require.NotZero(t, counters.CongestedPackets)
	for reason, n := range counters.Held() {
		require.NotContains(t, reason, "ecn", "%d times", n)
	}
	stats, err := w.lab.Subscribers[0].Devices[0].Link.Stats(lab.ToHost)
	require.NoError(t, err)
	require.LessOrEqual(t, counters.CongestedPackets, stats.Marked)
}
