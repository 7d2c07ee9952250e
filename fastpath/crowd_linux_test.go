package fastpath_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/relay"
	"sluice/transport"
)

// TestCrowd has 200 subscribers. The kernel serves some of them, and their number changes while media flows. All get
// everything.
func TestCrowd(t *testing.T) {
	const hosts, sessions = 20, 10
	w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: hosts}})
	p := w.publisher("moqt")
	var viewers []*viewer
	for i := range hosts * sessions {
		s := w.connect(w.lab.Subscribers[i%hosts], []string{"moqt", "https"}[i%2], nil, transport.Limits{})
		viewers = append(viewers, w.subscribe(s, trackName(0)))
	}
	b := w.broadcast(<-p.subscribed)
	group := uint64(0)
	publish := func(groups int) {
		for range groups {
			b.send(present(group, group%3), 0, 5*time.Millisecond, 3000, 1000, 1000, 200)
			group++
		}
	}
	for _, budget := range []relay.FastPathBudget{0, 1, -1, 32, 5, 0} {
		w.relay.SetFastPathPolicy(budget)
		publish(4)
	}
	for _, v := range viewers {
		w.expect(v, b, 0)
	}

	// With the default, the kernel serves as many as it can, and no packet costs more than that.
	before := w.report()
	publish(10)
	for _, v := range viewers {
		w.expect(v, b, 0)
	}
	after := w.report()
	frames, sent := after["frame_forwarded"]-before["frame_forwarded"], after["copy_sent"]-before["copy_sent"]
	require.NotZero(t, sent)
	limit := min(w.fast.MaxSubscribers(), len(viewers))
	require.LessOrEqual(t, sent, uint64(limit)*frames)
	served := 0
	for _, s := range w.relay.Sessions() {
		served += s.OnFastPath
	}
	require.Equal(t, limit, served)
	c := w.loop.Stats().Counters
	require.Greater(t, c.Packets-c.ForwarderPackets, uint64(len(viewers)-limit)*40, "user space serves the others")
}
