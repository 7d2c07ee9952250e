package congestion

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

// pragueWith returns a controller with a window of that many packets, beyond slow start, and with that share of marks.
func pragueWith(packets int, share float64) *prague {
	p := NewPrague(1000).(*prague)
	p.window = 1000 * float64(packets)
	p.ssthresh, p.share, p.reduced = p.window, share, 1
	return p
}

// ackMarked acknowledges 10 packets, sent a round trip ago, some with marks.
func ackMarked(p *prague, now clock.Time, rtt time.Duration, marks int) {
	p.Acked(AckEvent{
		Now: now, Bytes: 10_000, Packets: 10, CE: marks, Sent: now.Add(-rtt), LatestRTT: rtt, SRTT: rtt, MinRTT: rtt,
	})
}

// The window shrinks by half of the share of marks, once a round trip.
func TestPragueReduction(t *testing.T) {
	p, now := pragueWith(100, 0.2), clock.Time(time.Hour)
	p.began = now // the round is not over
	ackMarked(p, now, 40*ms, 10)
	require.InDelta(t, 90_000, p.window, 1)
	ackMarked(p, now.Add(20*ms), 40*ms, 10)
	require.InDelta(t, 90_000, p.window, 1, "the packets were sent before the reduction")
	share := p.share
	ackMarked(p, now.Add(41*ms), 40*ms, 10)
	require.InDelta(t, share+(1-share)/16, p.share, 1e-9)
	require.InDelta(t, 90_000*(1-p.share/2), p.window, 1)
	require.True(t, p.over(now, AckEvent{Now: now.Add(pragueVirtualRTT), Sent: now + 1}))
	require.False(t, p.over(now, AckEvent{Now: now.Add(pragueVirtualRTT), Sent: now}))
	p = pragueWith(2, 1)
	ackMarked(p, now, 40*ms, 10)
	require.Equal(t, 2000.0, p.window)
}

// The first marks end slow start, and halve the window. Until then, the share is not measured.
func TestPragueSlowStart(t *testing.T) {
	p, now := NewPrague(1000).(*prague), clock.Time(time.Hour)
	for range 5 {
		now = now.Add(50 * ms)
		ackMarked(p, now, 40*ms, 0)
	}
	before := p.window
	require.False(t, p.Smooth())
	ackMarked(p, now.Add(50*ms), 40*ms, 10)
	require.InDelta(t, before/2, p.window, 1)
	require.GreaterOrEqual(t, p.window, p.ssthresh)
	require.True(t, p.Smooth())
}

// Between marks the window grows by a packet in a round trip, and less in short ones, for the packets without marks.
func TestPragueGrowth(t *testing.T) {
	for _, c := range []struct {
		rtt    time.Duration
		marks  int
		growth float64
	}{{40 * ms, 0, 1000}, {25 * ms, 0, 1000}, {5 * ms, 0, 40}, {40 * ms, 4, 600}} {
		p, now := pragueWith(10, 0), clock.Time(time.Hour)
		p.began = now
		ackMarked(p, now, c.rtt, 10) // a reduction by nothing
		require.InDelta(t, 10_000, p.window, 1)
		p.reduced = now.Add(time.Hour) // no further reduction
		ackMarked(p, now.Add(c.rtt+1), c.rtt, c.marks)
		require.InDelta(t, 10_000+c.growth, p.window, 5, "%v", c)
	}
}

// A loss is answered as CUBIC answers it, also right after marks; marks in the same round trip change nothing more.
func TestPragueLoss(t *testing.T) {
	p, now := pragueWith(100, 0.2), clock.Time(time.Hour)
	ackMarked(p, now, 5*ms, 10)
	marked := p.window
	p.Lost(LossEvent{Now: now, Packets: 1, Bytes: 1000, Sent: now.Add(-1)})
	require.InDelta(t, cubicBeta*marked, p.window, 1)
	require.InDelta(t, 1, p.reno, 0)
	ackMarked(p, now.Add(30*ms), 40*ms, 10)
	require.InDelta(t, cubicBeta*marked, p.window, 1)
}

// Marks after a loss say that there was congestion: the reduction is not undone.
func TestPragueSpurious(t *testing.T) {
	for marks, undone := range map[int]bool{0: true, 10: false} {
		p, now := pragueWith(100, 0.2), clock.Time(time.Hour)
		p.Lost(LossEvent{Now: now, Packets: 1, Bytes: 1000, Sent: now.Add(-1)})
		lost := p.window
		ackMarked(p, now.Add(50*ms), 40*ms, marks)
		p.Spurious(now.Add(-1))
		require.Equal(t, undone, p.window > 1.2*lost, "%d marks", marks)
	}
}

// l4s is a path that marks packets as soon as others wait: at 10 Mbit/s, two packets take 2 ms.
var l4s = networkConfig{rate: mbs, delay: 20 * ms, queue: 1250 * kB, mark: 2 * packetSize}

// Where a path marks as soon as packets wait, Prague uses it with a shorter queue than CUBIC has where marks come at 20
// ms, and uses more of it than CUBIC with the same marks.
func TestPragueQueue(t *testing.T) {
	run := func(make func(int) Controller, mark int) (used float64, queue time.Duration) {
		cfg := l4s
		cfg.mark = mark
		n := newNetwork(cfg)
		f := n.flow(make(packetSize)).bulkFrom(0)
		n.run(5 * time.Second)
		f.queueSum, f.acks = 0, 0
		used = f.rate(8*time.Second) / mbs
		require.Zero(t, f.lost)
		return used, f.queueing()
	}
	used, queue := run(NewPrague, l4s.mark)
	classicUsed, classicQueue := run(NewCubic, 25*kB)
	shallowUsed, _ := run(NewCubic, l4s.mark)
	require.Greater(t, used, 0.95)
	require.Greater(t, used, shallowUsed+0.05)
	require.Greater(t, classicUsed, 0.9)
	require.Less(t, queue, 3*ms)
	require.Less(t, 3*queue, classicQueue)
}

// Frames of video leave packet by packet on such a path: else each would be marked, and the window would shrink until
// a frame takes several round trips.
func TestPragueVideo(t *testing.T) {
	n := newNetwork(l4s)
	f := n.flow(NewPrague(packetSize)).video(mbs/2, 30)
	n.run(12 * time.Second)
	frames := f.delays[90:]
	slices.Sort(frames)
	require.Less(t, frames[len(frames)/2], 50*ms)
	require.Less(t, f.queueing(), 5*ms)
}

// Flows on such a path get equal parts.
func TestPragueFlows(t *testing.T) {
	n := newNetwork(l4s)
	a := n.flow(NewPrague(packetSize)).bulkFrom(0)
	b := n.flow(NewPrague(packetSize)).bulkFrom(2 * time.Second)
	n.run(8 * time.Second)
	x, y := a.delivered, b.delivered
	n.run(15 * time.Second)
	x, y = a.delivered-x, b.delivered-y
	require.Greater(t, float64(x+y)/(15*mbs), 0.9)
	require.Greater(t, float64(min(x, y))/float64(x+y), 0.4)
}

// On a path that becomes faster, CUBIC's curve finds the new rate when marks stay away.
func TestPragueFasterPath(t *testing.T) {
	n := newNetwork(l4s)
	f := n.flow(NewPrague(packetSize)).bulkFrom(0)
	n.run(5 * time.Second)
	n.cfg.rate, n.cfg.mark = 8*mbs, 16*packetSize
	n.run(12 * time.Second)
	require.Greater(t, f.rate(3*time.Second)/(8*mbs), 0.9)
}
