package congestion

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

// watched notes the states that BBR goes through.
type watched struct {
	*bbr
	states []bbrState
}

func watch() *watched {
	return &watched{bbr: NewBBR(packetSize).(*bbr), states: []bbrState{bbrStartup}}
}

func (w *watched) note() {
	if w.states[len(w.states)-1] != w.state {
		w.states = append(w.states, w.state)
	}
}

func (w *watched) Acked(e AckEvent) { w.bbr.Acked(e); w.note() }
func (w *watched) Lost(e LossEvent) { w.bbr.Lost(e); w.note() }

// Startup ends when the rate no longer grows, and the model fits the path.
func TestBBRStates(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 200 * kB})
	w := watch()
	n.flow(w).bulkFrom(0)
	n.run(4 * time.Second)
	require.Equal(t, []bbrState{
		bbrStartup, bbrDrain, bbrProbeCruise, bbrProbeRefill, bbrProbeUp, bbrProbeDown, bbrProbeCruise,
	}, w.states)
	require.InEpsilon(t, mbs, w.maxBW.value(), 0.03)
	require.InDelta(t, 40*ms, w.rtt.min, float64(2*ms))
	require.NotContains(t, w.states, bbrProbeRTT)
	n.run(3 * time.Second)
	require.Contains(t, w.states, bbrProbeRTT, "after 5 s without a lower RTT")
	require.NotEqual(t, bbrProbeRTT, w.state)
}

// ProbeRTT keeps half of the path's volume in flight, for at least 200 ms.
func TestBBRProbeRTT(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 200 * kB})
	w := watch()
	f := n.flow(w).bulkFrom(0)
	n.run(4 * time.Second)
	for range 300 {
		if n.run(10 * ms); w.state == bbrProbeRTT {
			break
		}
	}
	require.Equal(t, bbrProbeRTT, w.state)
	n.run(150 * ms)
	require.Equal(t, bbrProbeRTT, w.state)
	require.LessOrEqual(t, f.inFlight, mbs/25/2+packetSize)
	n.run(200 * ms)
	require.NotEqual(t, bbrProbeRTT, w.state)
	require.Greater(t, w.Window(), mbs/25, "the window is what it was")
}

// An application that leaves the path half empty, or empties its queue before each frame, need not drain it. It ends
// startup only if a frame takes several round trips.
func TestBBRAppLimited(t *testing.T) {
	for _, tt := range []struct {
		delay   time.Duration
		rate    float64
		startup bool
	}{{5 * ms, 0.3 * mbs, false}, {40 * ms, 0.3 * mbs, true}, {18 * ms, 0.85 * mbs, false}} {
		n := newNetwork(networkConfig{rate: mbs, delay: tt.delay, queue: 200 * kB})
		w := watch()
		n.flow(w).video(tt.rate, 30)
		n.run(20 * time.Second)
		require.Equal(t, tt.startup, len(w.states) == 1, "%v", w.states)
		require.NotContains(t, w.states, bbrProbeRTT)
		require.LessOrEqual(t, w.maxBW.value(), 1.05*mbs)
	}
}

// Losses end startup although the application limits the rate.
func TestBBRStartupLosses(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 40 * ms, queue: 200 * kB, loss: 0.15})
	w := watch()
	n.flow(w).video(0.8*mbs, 30)
	n.run(3 * time.Second)
	require.Contains(t, w.states, bbrDrain)
}

// While BBR does not probe, a round trip with losses takes the rate to the path's delivery rate.
func TestBBRLosses(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 30 * kB})
	w := watch()
	f := n.flow(w).bulkFrom(0)
	for range 1000 {
		if n.run(ms); w.state == bbrProbeCruise && !w.losses.inRound {
			break
		}
	}
	w.bwShort, w.inflightShort = math.Inf(1), math.Inf(1)
	n.cfg.rate = mbs / 4
	n.run(800 * ms)
	require.Positive(t, f.lost)
	require.Less(t, w.bw, 0.6*mbs)
	require.GreaterOrEqual(t, w.bw, 0.9*mbs/4)
}

// A probe that causes losses remembers how much was in flight, and the next one stops there.
func TestBBRProbeTooHigh(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 12 * kB})
	w := watch()
	n.flow(w).bulkFrom(0)
	n.run(5 * time.Second)
	require.Less(t, w.inflightLong, 2.0*mbs/25)
	require.GreaterOrEqual(t, w.inflightLong, 0.7*mbs/25)
	require.LessOrEqual(t, w.window, w.inflightLong)
}

// When every packet that was lost in an event arrives, the event's changes are undone.
func TestBBRSpurious(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 200 * kB})
	b := NewBBR(packetSize).(*bbr)
	f := n.flow(b).bulkFrom(0)
	for range 3000 {
		if n.run(ms); b.state == bbrProbeUp && b.probe.phase == bbrAcksProbe {
			break
		}
	}
	require.Equal(t, bbrProbeUp, b.state)
	sent := n.now.Add(-40 * ms)
	b.Lost(LossEvent{Now: n.now, Packets: 10, Bytes: 12 * kB, Sent: sent, InFlight: f.inFlight})
	require.Equal(t, bbrProbeDown, b.state)
	require.False(t, math.IsInf(b.inflightLong, 1))
	for range 9 {
		b.Spurious(sent)
	}
	require.Equal(t, bbrProbeDown, b.state)
	b.Spurious(sent)
	require.Equal(t, bbrProbeRefill, b.state)
	require.True(t, math.IsInf(b.inflightLong, 1))
	b.Spurious(sent) // more than were lost
	require.Equal(t, bbrProbeRefill, b.state)
}

func TestBBRPersistentCongestion(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 200 * kB})
	b := NewBBR(packetSize)
	n.flow(b).bulkFrom(0)
	n.run(time.Second)
	b.Lost(LossEvent{Now: n.now, Packets: 1, Bytes: packetSize, Sent: n.now.Add(-40 * ms), Persistent: true})
	require.Equal(t, 4*packetSize, b.Window())
	n.run(time.Second)
	require.Greater(t, b.Window(), mbs/25, "the window grows again")
}

func TestBBRReset(t *testing.T) {
	n := newNetwork(networkConfig{rate: mbs, delay: 20 * ms, queue: 200 * kB})
	b := NewBBR(packetSize)
	n.flow(b).bulkFrom(0)
	n.run(time.Second)
	b.Reset(1400)
	require.Equal(t, NewBBR(1400), b)
	require.Equal(t, initialWindow(1400), b.Window())
	require.Equal(t, int64(2.77*14000/0.1), b.Rate(rtt100))
}

// No ACKs of a peer, in whatever order, can take the window beyond its limits.
func FuzzControllers(f *testing.F) {
	f.Add([]byte{0, 10, 1, 200, 2, 3, 4, 5, 255, 7, 0, 0, 9, 1, 1, 1, 40, 1, 200, 9, 3, 3, 3, 3})
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, make := range Controllers {
			c := make(packetSize)
			now, sent, inFlight := clock.Time(time.Hour), clock.Time(time.Hour), 0
			for in := in; len(in) >= 4; in = in[4:] {
				now = now.Add(time.Duration(in[1]) * ms)
				n := int(in[2]) * packetSize
				at := sent.Add(-time.Duration(in[3]) * ms)
				rtt := time.Duration(in[3])*ms + 1
				switch in[0] % 5 {
				case 0:
					sent = now
					inFlight += n
					c.Sent(now, n, inFlight)
				case 1:
					c.Acked(AckEvent{
						Now: now, Bytes: n + 1, First: at, Sent: sent, InFlight: inFlight, LatestRTT: rtt, SRTT: rtt,
						MinRTT: rtt, AppLimited: in[3]&1 == 0, Packets: n/packetSize + 1, CE: int(in[3] >> 5),
					})
					inFlight = max(inFlight-n, 0)
				case 2:
					c.Lost(LossEvent{Now: now, Packets: n/packetSize + 1, Bytes: n + 1, Sent: at, InFlight: inFlight})
				case 3:
					c.Lost(LossEvent{Now: now, Packets: 1, Bytes: 1, Sent: at, Persistent: true})
				case 4:
					c.Spurious(at)
				}
				if w := c.Window(); w < MinWindow || w > MaxWindow {
					t.Fatalf("window %d", w)
				}
				if r := c.Rate(rtt); r < 0 {
					t.Fatalf("rate %d", r)
				}
			}
		}
	})
}

func TestControllersDoNotAllocate(t *testing.T) {
	for name, make := range Controllers {
		c := make(packetSize)
		now := clock.Time(time.Hour)
		require.Zero(t, testing.AllocsPerRun(1000, func() { now = step(c, now) }), name)
	}
}

// step acknowledges two of 50 packets in flight, and now and then finds one lost.
func step(c Controller, now clock.Time) clock.Time {
	now = now.Add(ms)
	sent := now.Add(-25 * ms)
	c.Sent(now, 2*packetSize, 50*packetSize)
	c.Acked(AckEvent{
		Now: now, Bytes: 2 * packetSize, Packets: 2, First: sent, Sent: sent, InFlight: 50 * packetSize,
		LatestRTT: 25 * ms, SRTT: 25 * ms, MinRTT: 25 * ms,
	})
	if now/clock.Time(ms)%1000 == 0 {
		c.Lost(LossEvent{Now: now, Packets: 1, Bytes: packetSize, Sent: sent, InFlight: 48 * packetSize})
	}
	return now
}

func BenchmarkControllers(b *testing.B) {
	for name, make := range Controllers {
		b.Run(name, func(b *testing.B) {
			c := make(packetSize)
			now := clock.Time(time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				now = step(c, now)
			}
		})
	}
}
