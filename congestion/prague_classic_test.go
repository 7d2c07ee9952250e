package congestion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// On a path that marks when a queue has stood, Prague leaves CUBIC, which answers marks as losses, its part. Without a
// change of its answer it would take nine tenths.
func TestPragueOnOlderPath(t *testing.T) {
	t.Parallel()
	for _, cfg := range []networkConfig{
		{rate: mbs, delay: 5 * ms, mark: 25 * kB},        // 20 ms
		{rate: mbs, delay: 20 * ms, mark: 25 * kB},       // 20 ms
		{rate: mbs / 5, delay: 20 * ms, mark: 12.5 * kB}, // 50 ms
	} {
		cfg.queue = 1250 * kB
		n := newNetwork(cfg)
		prague := NewPrague(packetSize).(*prague)
		a := n.flow(prague).bulkFrom(0)
		b := n.flow(NewCubic(packetSize)).bulkFrom(2 * time.Second)
		n.run(10 * time.Second)
		x, y := a.delivered, b.delivered
		n.run(20 * time.Second)
		x, y = a.delivered-x, b.delivered-y
		require.True(t, prague.classic.found)
		require.InDelta(t, .5, float64(x)/float64(x+y), .1, "%+v", cfg)
		require.Greater(t, float64(x+y)/(20*cfg.rate), .9)
	}
}

// A path that marks early is not taken for an older one, also if it is slow, and if frames come in bursts.
func TestPragueOnNewPath(t *testing.T) {
	t.Parallel()
	slow, jittery := l4s, l4s
	slow.rate, jittery.jitter = mbs/10, 20*ms
	for _, cfg := range []networkConfig{l4s, slow, jittery} {
		n := newNetwork(cfg)
		bulk, video := NewPrague(packetSize).(*prague), NewPrague(packetSize).(*prague)
		n.flow(bulk).bulkFrom(0)
		n.flow(video).video(cfg.rate/2, 30)
		for range 30 {
			n.run(time.Second)
			require.False(t, bulk.classic.found || video.classic.found, "%+v", cfg)
		}
		require.Positive(t, bulk.share)
		require.Less(t, bulk.share, 1., "there were marks")
	}
}

// A path that becomes another one is found out in either case.
func TestPraguePathChanges(t *testing.T) {
	var c classic
	round := func(queue time.Duration, marks bool) bool {
		e := AckEvent{SRTT: 40 * ms, MinRTT: 40 * ms}
		for _, more := range []time.Duration{9 * ms, 0, 3 * ms} {
			e.LatestRTT = e.MinRTT + queue + more
			c.acked(e)
		}
		c.endRound(e, marks, 100*packetSize, packetSize)
		return c.found
	}
	const bound = shallowQueue + shallowPackets*40*ms/100
	for range 3 * classicRounds {
		require.False(t, round(bound, true))
		require.False(t, round(time.Second, false), "there were no marks")
	}
	for i := range 2 * classicRounds {
		require.Equal(t, i >= classicRounds-1, round(bound+1, true))
	}
	for i := range 2 * classicRounds {
		require.Equal(t, i < classicRounds-1, round(bound, true))
	}
}
