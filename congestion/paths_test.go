package congestion

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	ms  = time.Millisecond
	kB  = 1000
	mbs = 1_250_000 // 10 Mbit/s in bytes per second
)

func init() { uniform = func() float64 { return 0.5 } }

// queueing returns by how much the RTT has exceeded the path's, in the mean.
func (f *flow) queueing() time.Duration { return f.queueSum / time.Duration(max(f.acks, 1)) }

// Alone on a path, a controller uses it. BBR keeps the queue short, and goes on in spite of random losses.
func TestPaths(t *testing.T) {
	type want struct {
		used  float64 // of the rate
		queue time.Duration
	}
	for name, c := range map[string]struct {
		network    networkConfig
		cubic, bbr want
	}{
		"one BDP of queue": {networkConfig{queue: 50 * kB}, want{0.95, 45 * ms}, want{0.95, 25 * ms}},
		"shallow queue":    {networkConfig{queue: 10 * kB}, want{0.9, 10 * ms}, want{0.9, 10 * ms}},
		"bufferbloat":      {networkConfig{queue: 1250 * kB}, want{0.95, 800 * ms}, want{0.95, 30 * ms}},
		"random loss":      {networkConfig{queue: 100 * kB, loss: 0.01}, want{0.2, 20 * ms}, want{0.8, 20 * ms}},
		"jitter":           {networkConfig{queue: 100 * kB, jitter: 10 * ms}, want{0.9, 80 * ms}, want{0.9, 55 * ms}},
		"gathered ACKs":    {networkConfig{queue: 100 * kB, gather: 20 * ms}, want{0.9, 80 * ms}, want{0.9, 45 * ms}},
	} {
		for controller, want := range map[string]want{"cubic": c.cubic, "bbr": c.bbr, "prague": c.cubic} {
			t.Run(name+"/"+controller, func(t *testing.T) {
				t.Parallel()
				cfg := c.network
				cfg.rate, cfg.delay = mbs, 20*ms
				n := newNetwork(cfg)
				f := n.flow(Controllers[controller](packetSize)).bulkFrom(0)
				n.run(3 * time.Second)
				require.Greater(t, f.rate(8*time.Second)/mbs, want.used)
				require.Less(t, f.queueing(), want.queue)
			})
		}
	}
}

// On a path that marks packets, queues stay short, and nothing is lost.
func TestMarkingPath(t *testing.T) {
	for name, make := range Controllers {
		n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 1250 * kB, mark: 25 * kB})
		f := n.flow(make(packetSize)).bulkFrom(0)
		n.run(3 * time.Second)
		f.queueSum, f.acks = 0, 0
		require.Greater(t, f.rate(6*time.Second)/mbs, 0.85, name)
		require.Less(t, f.queueing(), 25*ms, name)
		require.Zero(t, f.lost, name)
	}
}

// Flows that compete for a path get their parts, whichever their controllers are.
func TestCompetingFlows(t *testing.T) {
	for name, pair := range map[string][2]func(int) Controller{
		"bbr bbr": {NewBBR, NewBBR}, "bbr cubic": {NewBBR, NewCubic}, "cubic bbr": {NewCubic, NewBBR},
		"cubic cubic": {NewCubic, NewCubic}, "prague cubic": {NewPrague, NewCubic}, "bbr prague": {NewBBR, NewPrague},
	} {
		for _, queue := range []int{50 * kB, 100 * kB, 200 * kB} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := newNetwork(networkConfig{rate: 2 * mbs, delay: 20 * ms, queue: queue})
				a := n.flow(pair[0](packetSize)).bulkFrom(0)
				b := n.flow(pair[1](packetSize)).bulkFrom(time.Second)
				n.run(5 * time.Second)
				x, y := a.delivered, b.delivered
				n.run(15 * time.Second)
				x, y = a.delivered-x, b.delivered-y
				require.Greater(t, float64(x+y)/(15*2*mbs), 0.9)
				require.Greater(t, float64(min(x, y))/float64(x+y), 0.1)
			})
		}
	}
}

// Video leaves the path empty most of the time. Its frames must not wait for a controller that has not seen what the
// path can carry: a key frame, six times as large as others, takes as long as the path takes for it.
func TestVideo(t *testing.T) {
	for controller, make := range Controllers {
		for part, latest := range map[float64]time.Duration{0.3: 85 * ms, 0.7: 140 * ms} {
			n := newNetwork(networkConfig{rate: mbs, delay: 40 * ms, queue: 200 * kB})
			f := n.flow(make(packetSize)).video(part*mbs, 30)
			n.run(12 * time.Second)
			require.Less(t, slices.Max(f.delays[30:]), latest, "%s, %v of the rate", controller, part)
			require.Zero(t, f.lost)
		}
	}
}

// A path becomes slower than the video, and faster again. BBR does not fill the queue meanwhile.
func TestVideoOnSlowerPath(t *testing.T) {
	run := func(make func(int) Controller) (f *flow, queued time.Duration) {
		n := newNetwork(networkConfig{rate: 1.5 * mbs, delay: 20 * ms, queue: 1000 * kB})
		f = n.flow(make(packetSize)).video(mbs, 30)
		n.run(4 * time.Second)
		n.cfg.rate = mbs / 2
		f.queueSum, f.acks = 0, 0
		n.run(4 * time.Second)
		queued = f.queueing()
		n.cfg.rate = 1.5 * mbs
		n.run(10 * time.Second)
		return f, queued
	}
	cubic, bloated := run(NewCubic)
	bbr, queued := run(NewBBR)
	require.Less(t, queued, bloated/2)
	for _, f := range []*flow{cubic, bbr} {
		require.LessOrEqual(t, len(f.frames), 3, "all frames have arrived again")
	}
}
