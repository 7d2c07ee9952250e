package congestion

import (
	"bytes"
	"fmt"
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
	require.Zero(t, w.rtt.done, "the path is not yet drained")
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
	b.Lost(LossEvent{Now: n.now, Packets: 9, Bytes: 12 * kB, Sent: sent, InFlight: f.inFlight})
	b.Lost(LossEvent{Now: n.now, Packets: 1, Sent: n.now})
	require.Equal(t, bbrProbeDown, b.state)
	require.False(t, math.IsInf(b.inflightLong, 1))
	for range 9 {
		b.Spurious(sent)
	}
	require.Equal(t, bbrProbeDown, b.state)
	b.Spurious(n.now)
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
	require.Equal(t, b.Rate(initialRTT), b.Rate(0))
}

// The draft's formulas, for packets of 1 kB on a path of 1 MB/s and 40 ms.
func TestBBRFormulas(t *testing.T) {
	inf := math.Inf(1)
	m := bbrModel{mtu: 1000, initial: 10_000, bw: 1e6, inflightLong: inf, inflightShort: inf, window: 80_000}
	require.Equal(t, 10_000.0, m.bdp(2), "the RTT is not known")
	m.rtt.min = 40 * ms
	require.Equal(t, 80_000.0, m.bdp(2))
	require.Equal(t, 40_000.0, m.inflight(1))
	require.Equal(t, 4000.0, m.inflight(0))
	m.pacing = 50e6
	require.Equal(t, 50_000.0, m.inflight(1), "a millisecond")
	m.state = bbrProbeUp
	require.Equal(t, 52_000.0, m.inflight(1))
	for long, want := range map[float64]float64{inf: inf, 50_000: 42_500, 5500: 4500, 4500: 4000} {
		m.inflightLong = long
		require.Equal(t, want, m.inflightWithHeadroom())
	}
	m.inflightLong = 50_000
	for state, want := range [...]float64{inf, inf, 50_000, 42_500, 50_000, 50_000, 42_500} {
		m.state = bbrState(state)
		m.inflightShort = inf
		require.Equal(t, want, m.bound(), "state %d", state)
		m.inflightShort = 45_000
		require.Equal(t, min(want, 45_000), m.bound(), "state %d", state)
	}
	for lost, want := range map[float64]bool{2000: false, 2001: true} {
		require.Equal(t, want, m.tooMuchLost(&deliverySample{delivered: 98_000, lost: lost}))
	}
	s := deliverySample{delivered: 95_000, lost: 5000}
	m.bw = 0
	require.Equal(t, 4000.0, m.probeRTTWindow())
	require.Equal(t, 97_000.0, inflightAtLoss(3000, s))
	require.InDelta(t, 96_000+920/0.98, inflightAtLoss(4000, s), 1e-6)
}

// While inflightLong is the limit, it grows by one packet a round trip, and then by two.
func TestBBRRaiseLong(t *testing.T) {
	m := bbrModel{mtu: 1000, window: 80_000, inflightLong: 80_000, round: bbrRound{start: true}}
	m.raiseSlope()
	for i, step := range []struct{ inFlight, acked, window, long int }{
		{79_000, 80_000, 80_000, 80_000}, // the window is not full
		{79_001, 79_999, 80_000, 80_000}, // the slope doubles
		{79_001, 1, 80_000, 82_000},
		{79_001, 80_000, 80_000, 82_000}, // inflightLong is not the limit
		{82_000, 50_000, 82_000, 84_000},
		{84_000, 250, 84_000, 85_000}, // 10,000 more are left
	} {
		m.window = float64(step.window)
		m.raiseLong(AckEvent{Bytes: step.acked, InFlight: step.inFlight})
		require.EqualValues(t, step.long, m.inflightLong, "step %d", i)
	}
}

// Startup ends after more than a few losses, and more than 2 %. Drain ends when the path is drained, or after three
// round trips.
func TestBBRStartupAndDrainEnd(t *testing.T) {
	for lost, over := range map[[2]int]bool{{6, 2001}: true, {5, 2001}: false, {6, 2000}: false} {
		var b bbr
		b.losses = bbrLosses{round: true, earlier: true, packets: lost[0], bytes: float64(lost[1])}
		b.sample.delivered = 100_000
		require.Equal(t, over, b.losses.startupOver(&b), "%v", lost)
	}
	for c, over := range map[[2]int]bool{{40_000, 0}: true, {40_001, 3}: false, {40_001, 4}: true} {
		b := NewBBR(1000).(*bbr)
		b.state, b.bw, b.rtt.min = bbrDrain, 1e6, 40*ms
		b.inFlight, b.round.count = float64(c[0]), c[1]
		b.updateState(AckEvent{Now: 1, LatestRTT: 40 * ms})
		require.Equal(t, over, b.state != bbrDrain, "%v", c)
	}
}

// A path is full when its rate does not grow by a quarter in three round trips. Rates that the application limits count
// only if they are higher.
func TestBBRRates(t *testing.T) {
	var b bbr
	b.round.start = true
	for i, s := range []struct {
		rate  float64
		count int
	}{{100, 0}, {125, 0}, {156, 1}, {0, 1}, {156, 2}, {156, bbrFullRounds}} {
		b.sample.rate = s.rate
		b.full.update(&b)
		require.Equal(t, s.count, b.full.count, "round %d", i)
		require.Equal(t, s.count == bbrFullRounds, b.full.reached)
	}
	for _, rate := range []float64{100, 99} {
		b.sample = deliverySample{rate: rate, appLimited: true}
		b.updateModel(AckEvent{})
		require.Equal(t, 100.0, b.maxBW.value())
		b.maxBW.next()
	}
	require.Zero(t, b.maxBW.value())
	require.Equal(t, 2, b.round.count)
}

// How window and rate follow from the model.
func TestBBRWindowAndRate(t *testing.T) {
	m := bbrModel{mtu: 1000, initial: 10_000, inflightShort: math.Inf(1), inflightLong: math.Inf(1)}
	m.updatePacing(AckEvent{})
	require.Zero(t, m.pacing, "the RTT is not known")
	for i, c := range []struct {
		bw, want float64
		full     bool
	}{{1e3, 692_500, false}, {1e6, 2_742_300, false}, {1e3, 2_742_300, false}, {1e3, 2742.3, true}} {
		m.bw, m.full.reached = c.bw, c.full
		m.updatePacing(AckEvent{SRTT: 40 * ms})
		require.InDelta(t, c.want, m.pacing, 1e-6, "step %d", i)
	}
	m.rtt.min = 40 * ms
	for i, c := range []struct {
		state                           bbrState
		full                            bool
		bw, delivered, short, was, want float64
	}{
		{bbrProbeUp, true, 1e6, 0, 1e6, 75_000, 92_000}, {bbrProbeCruise, true, 1e6, 0, 1e6, 75_000, 80_000},
		{bbrProbeCruise, true, 1e6, 0, 1e3, 75_000, 4000}, {bbrProbeRTT, true, 1e6, 0, 1e6, 75_000, 20_000},
		{bbrProbeRTT, true, 1e3, 0, 1e6, 75_000, 4000}, {bbrStartup, false, 1e6, 10_000, 1e6, 79_999, 99_999},
		{bbrStartup, false, 1e6, 10_000, 1e6, 80_000, 80_000}, {bbrStartup, false, 1e6, 9999, 1e6, 80_000, 100_000},
	} {
		m.state, m.full.reached, m.bw, m.delivery.delivered = c.state, c.full, c.bw, c.delivered
		m.inflightShort, m.window = c.short, c.was
		m.updateWindow(20_000)
		require.Equal(t, c.want, m.window, "step %d", i)
	}
	m = bbrModel{state: bbrProbeCruise, bwShort: 1e6, inflightShort: 40_000}
	m.losses = bbrLosses{inRound: true, bw: 5e5, inflight: 20_000}
	for _, want := range [][]float64{{7e5, 28_000}, {5e5, 20_000}} {
		m.adaptToLosses()
		require.InDeltaSlice(t, want, []float64{m.bwShort, m.inflightShort}, 1e-6)
	}
}

// The path is probed again after a while, or after as many round trips as it holds packets. A probe ends where the
// last one caused losses.
func TestBBRProbe(t *testing.T) {
	probe := func() *bbr {
		b := NewBBR(1000).(*bbr)
		b.bw, b.rtt.min, b.window = 1e6, 40*ms, 50_000
		b.startProbeDown(1)
		return b
	}
	require.Equal(t, []any{1, 2500 * ms}, []any{probe().probe.rounds, probe().probe.wait})
	for c, again := range map[[2]int]bool{{2500, 39}: false, {2501, 39}: true, {0, 40}: true} {
		b := probe()
		b.probe.rounds = c[1]
		require.Equal(t, again, b.probeAgain(clock.Time(1).Add(time.Duration(c[0])*ms)), "%v", c)
	}
	b := probe()
	b.probe.tooHigh, b.probe.samples, b.inflightLong = true, true, 40_000
	for inFlight, over := range map[float64]bool{39_999: false, 40_000: true} {
		b.inFlight, b.window = inFlight, 39_000
		require.Equal(t, over, b.upIsOver(AckEvent{}))
	}
	b.window, b.round.start = 40_000, true
	for range 2 { // its ACKs are over, and it does not raise the limit
		require.False(t, b.adaptLong(AckEvent{InFlight: 40_000, Bytes: 1e6}))
		require.Equal(t, []any{false, bbrAcksOther, 40_000.0}, []any{b.probe.samples, b.probe.phase, b.inflightLong})
		b.probe.upAcked, b.probe.ackedPerPacket = 0, 1000
	}
}

// Packets with CE count as lost and arrived. Losses of a probe leave the most that was in flight without them, and no
// less than 70 % of the path.
func TestBBRResponse(t *testing.T) {
	for marks, want := range map[int]float64{2: 2000, 20: 10_000} {
		b := NewBBR(1000).(*bbr)
		b.Acked(AckEvent{Now: 2, Bytes: 10_000, Packets: 10, CE: marks, First: 1, Sent: 1})
		require.Equal(t, []float64{want, want}, []float64{b.delivery.lost, b.delivery.marked})
	}
	for delivered, want := range map[float64]float64{10_000: 21_000, 25_000: 25_510} {
		b := NewBBR(1000).(*bbr)
		b.bw, b.rtt.min, b.window = 1e6, 40*ms, 30_000
		b.respondTooHigh(LossEvent{Bytes: 500}, deliverySample{delivered: delivered, lost: 510})
		require.InEpsilon(t, want, b.inflightLong, 1e-4)
	}
}

// No ACKs of a peer, in whatever order, can take the window beyond its limits.
func FuzzControllers(f *testing.F) {
	f.Add([]byte{0, 10, 1, 200, 2, 3, 4, 5, 255, 7, 0, 0, 9, 1, 1, 1, 40, 1, 200, 9, 3, 3, 3, 3})
	f.Add(bytes.Repeat([]byte{0, 255, 1, 0, 2, 0, 0, 0}, 30))      // losses
	f.Add(bytes.Repeat([]byte{0, 20, 255, 1, 1, 20, 255, 1}, 100)) // growth
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
		require.Equal(t, name, fmt.Sprint(c), "the name in metrics")
	}
}

// step acknowledges two of 50 packets in flight, and now and then finds one lost.
func step(c Controller, now clock.Time) clock.Time {
	now = now.Add(ms)
	sent := now.Add(-25 * ms)
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
