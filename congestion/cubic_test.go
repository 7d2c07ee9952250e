package congestion

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

const rtt100 = 100 * time.Millisecond

// ackWindow acknowledges a whole window, in packets, one round trip after it was sent.
func ackWindow(c *cubic, now *clock.Time, appLimited bool) {
	sent := *now
	*now = now.Add(rtt100)
	for n := c.Window() / 1200; n > 0; n-- {
		c.Acked(AckEvent{
			Now: *now, Bytes: 1200, Sent: sent, LatestRTT: rtt100, SRTT: rtt100, MinRTT: rtt100, AppLimited: appLimited,
		})
	}
}

// grown returns a controller in slow start, whose window has become that large.
func grown(window int) (*cubic, clock.Time) {
	c, now := NewCubic(1200).(*cubic), clock.Time(time.Second)
	for c.Window() < window {
		ackWindow(c, &now, false)
	}
	return c, now
}

func lose(c *cubic, now clock.Time, packets int) {
	c.Lost(LossEvent{Now: now, Packets: packets, Bytes: packets * 1200, Sent: now.Add(-rtt100)})
}

func TestCubicSlowStart(t *testing.T) {
	c := NewCubic(1200).(*cubic)
	now := clock.Time(time.Second)
	require.Equal(t, 12000, c.Window())
	ackWindow(c, &now, false)
	require.Equal(t, 24000, c.Window())
	ackWindow(c, &now, true)
	require.Equal(t, 24000, c.Window(), "an unused window does not grow")
	require.Equal(t, int64(480_000), c.Rate(rtt100), "twice a window each round trip")
	require.Equal(t, c.Rate(initialRTT), c.Rate(0))
}

// In slow start a burst of more than half the window lets it grow, although it did not fill it.
func TestCubicHalfUsed(t *testing.T) {
	c := NewCubic(1200).(*cubic)
	ack := func(inFlight int) int {
		c.Acked(AckEvent{
			Now: clock.Time(time.Second), Bytes: 1200, Sent: 1, LatestRTT: rtt100, SRTT: rtt100, MinRTT: rtt100,
			InFlight: inFlight, AppLimited: true,
		})
		return c.Window()
	}
	require.Equal(t, 12000, ack(6000), "half of it is not more than half")
	require.Equal(t, 13200, ack(7200))
	require.Equal(t, 13200, ack(6000))
	lose(c, clock.Time(2*time.Second), 1)
	after := c.Window()
	require.Equal(t, after, ack(after), "only in slow start")
}

func TestInitialWindow(t *testing.T) { // RFC 9002 §7.2
	for mtu, want := range map[int]int{1200: 12000, 1452: 14520, 1500: 14720, 9000: 18000} {
		require.Equal(t, want, initialWindow(mtu))
	}
}

func TestCubicReduction(t *testing.T) {
	c, now := grown(1_000_000)
	before := c.window
	lose(c, now, 1)
	require.InDelta(t, before*0.7, c.window, 1)
	c.Lost(LossEvent{Now: now, Packets: 3, Sent: now})
	require.InDelta(t, before*0.7, c.window, 1, "the same congestion event")
	c.Acked(AckEvent{Now: now.Add(rtt100), Bytes: 1200, Sent: now, SRTT: rtt100, LatestRTT: rtt100})
	require.InDelta(t, before*0.7, c.window, 1, "no growth during recovery")
	require.Equal(t, int64(1.25*c.window/0.1), c.Rate(rtt100))

	now = now.Add(time.Second)
	lose(c, now, 1)
	require.InDelta(t, before*0.49, c.window, 1, "another congestion event")
	require.InDelta(t, before*0.7*0.85, c.wMax, 1, "fast convergence (RFC 9438 §4.7)")

	c.wMax = c.window
	lose(c, now.Add(time.Second), 1)
	require.InDelta(t, before*0.49, c.wMax, 1, "it had grown to what it was")
}

// The window follows W_cubic(t) = C(t-K)³ + W_max (RFC 9438 §4.2).
func TestCubicGrowth(t *testing.T) {
	c, now := grown(4_000_000)
	c.Lost(LossEvent{Now: now, Packets: 1, Sent: now})
	wMax := c.wMax
	now++
	k := math.Cbrt(wMax * 0.3 / 1200 / 0.4)
	begin := now.Add(rtt100)
	for {
		ackWindow(c, &now, false)
		elapsed := now.Sub(begin).Seconds()
		d := elapsed + 0.1 - k // the target lies one round trip ahead
		want := 0.4*d*d*d*1200 + wMax
		if elapsed > 2 && elapsed < k {
			require.InEpsilon(t, want, c.window, 0.005, "after %.1f of %.1f s", elapsed, k)
		}
		if elapsed > k+1 {
			break
		}
	}
	require.Greater(t, c.window, wMax)
}

// At small windows CUBIC is no slower than Reno (RFC 9438 §4.3).
func TestCubicRenoFriendly(t *testing.T) {
	c := NewCubic(1200).(*cubic)
	now := clock.Time(time.Second)
	lose(c, now, 1)
	now = now.Add(rtt100)
	before := c.window
	for range 10 {
		ackWindow(c, &now, false)
	}
	require.InDelta(t, before+10*cubicAlpha*1200, c.window, 0.35*before)
	require.Greater(t, c.window, before+3*1200)
}

// Time in which the window is not used does not count (RFC 9438 §5.8).
func TestCubicAppLimited(t *testing.T) {
	run := func(pause bool) float64 {
		c, now := grown(1_000_000)
		lose(c, now, 1)
		now = now.Add(rtt100)
		for range 5 {
			ackWindow(c, &now, false)
		}
		if pause {
			for range 50 {
				ackWindow(c, &now, true)
			}
		}
		ackWindow(c, &now, false)
		return c.window
	}
	require.InEpsilon(t, run(false), run(true), 0.01)
}

func TestCubicPersistentCongestion(t *testing.T) {
	c, now := grown(384_000)
	c.Lost(LossEvent{Now: now, Packets: 5, Sent: now.Add(-rtt100), Persistent: true})
	require.Equal(t, 2400, c.Window())
	ackWindow(c, &now, false)
	require.Equal(t, 4800, c.Window(), "slow start")
}

// When every packet that was lost in a congestion event arrives, the event is undone (RFC 9438 §4.9.2).
func TestCubicSpurious(t *testing.T) {
	c, now := grown(384_000)
	before := *c
	lose(c, now, 2)
	lose(c, now, 1)
	c.Spurious(now.Add(-rtt100))
	c.Spurious(now.Add(-rtt100))
	require.Less(t, c.window, before.window)
	c.Spurious(now.Add(-rtt100))
	require.Equal(t, before.window, c.window)
	require.Equal(t, before.ssthresh, c.ssthresh)
	c.Spurious(now.Add(-rtt100)) // more than were lost
	require.Equal(t, before.window, c.window)

	lose(c, now.Add(time.Second), 1)
	c.Spurious(now)
	require.Less(t, c.window, before.window, "a packet of the earlier event")
	c.Spurious(now.Add(2 * time.Second))
	require.Less(t, c.window, before.window, "a packet of a later event")
	c.Spurious(now.Add(time.Second))
	require.Equal(t, before.window, c.window, "the last one that belongs to it")
}

// A packet that the path has marked counts as one that was lost, once in a round trip, and is never spurious.
func TestCubicMarked(t *testing.T) {
	c, now := grown(384_000)
	before := c.window
	mark := func(sent clock.Time) {
		c.Acked(AckEvent{Now: now, Bytes: 1200, Sent: sent, SRTT: rtt100, LatestRTT: rtt100, CE: 2})
	}
	mark(now.Add(-rtt100))
	require.InDelta(t, 0.7*before, c.window, 1)
	now = now.Add(rtt100)
	mark(now.Add(-rtt100))
	require.InDelta(t, 0.7*before, c.window, 1, "the same congestion event")
	lose(c, now, 1)
	c.Spurious(now.Add(-rtt100))
	require.InDelta(t, 0.7*before, c.window, 1, "the marks were not spurious")
	now = now.Add(2 * rtt100)
	mark(now.Add(-rtt100))
	require.InDelta(t, 0.49*before, c.window, 1)
}

func TestCubicReset(t *testing.T) {
	c := NewCubic(1200).(*cubic)
	lose(c, clock.Time(time.Second), 1)
	c.Reset(1400)
	require.Equal(t, NewCubic(1400), Controller(c))
}

// A growing RTT ends slow start before anything is lost (RFC 9406).
func TestHyStart(t *testing.T) {
	round := func(c *cubic, now *clock.Time, rtt time.Duration) {
		sent := *now
		*now = now.Add(rtt)
		for n := c.Window() / 1200; n > 0; n-- {
			c.Acked(AckEvent{Now: *now, Bytes: 1200, Sent: sent, LatestRTT: rtt, SRTT: rtt, MinRTT: rtt})
		}
	}
	c := NewCubic(1200).(*cubic)
	now := clock.Time(time.Second)
	for range 3 {
		round(c, &now, rtt100)
	}
	require.Equal(t, 96000, c.Window())
	longer := rtt100 + rtt100/8
	round(c, &now, longer)
	require.Less(t, c.Window(), 2*96000, "conservative slow start")
	require.Equal(t, math.Inf(1), c.ssthresh)
	for range cssRounds {
		round(c, &now, longer)
	}
	require.False(t, math.IsInf(c.ssthresh, 1), "congestion avoidance")

	c = NewCubic(1200).(*cubic)
	for _, rtt := range []time.Duration{rtt100, rtt100, longer, rtt100} { // for a moment
		round(c, &now, rtt)
	}
	require.Zero(t, c.start.baseline)
	before := c.Window()
	round(c, &now, rtt100)
	require.Equal(t, 2*before, c.Window())
}

// The lowest RTT of eight samples decides.
func TestHyStartSamples(t *testing.T) {
	h := hystart{begin: 10, lastMin: rtt100}
	for i := range hystartSamples {
		require.Zero(t, h.baseline)
		h.growth(AckEvent{LatestRTT: 2*rtt100 - time.Duration(i)*ms})
	}
	require.Equal(t, 2*rtt100-(hystartSamples-1)*ms, h.baseline)
}
