package fastpath_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/congestion"
	"sluice/lab"
	"sluice/media"
	"sluice/moqt"
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
	delay := lab.Symmetric(lab.Conditions{Delay: 5 * time.Millisecond})
	w := newWorld(t, worldConfig{
		topology: lab.Topology{Subscribers: 1, Downlink: delay}, budget: relay.FastPathBudget(0),
		sender: media.SenderConfig{NewController: controller},
	})
	p := w.publisher("moqt")
	player := &player{came: make(map[moqt.Location]time.Time)}
	sub, err := w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{}).Subscribe(t.Context(),
		moqt.Subscribe{Track: trackName(0)}, player)
	require.NoError(t, err)
	_, err = sub.Wait(t.Context())
	require.NoError(t, err)
	cam := &camera{world: w, pub: <-p.subscribed}
	cam.groups(1)
	w.await(player, 0)
	require.Zero(t, w.loop.Stats().Counters.CongestedPackets)

	marking := lab.Conditions{Delay: 5 * time.Millisecond, Mark: 0.1}
	require.NoError(t, w.lab.Subscribers[0].Devices[0].Link.Set(lab.ToHost, marking))
	cam.groups(3)
	w.await(player, 3)
	require.Empty(t, player.errs)
	require.Zero(t, player.resets)
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
