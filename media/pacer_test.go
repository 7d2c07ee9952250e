package media

import (
	"sluice/clock"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPacer(t *testing.T) {
	var p pacer
	now := clock.Time(time.Second)
	p.refill(now, 1_000_000, 15_000)
	require.True(t, p.ready())
	p.spend(14_999)
	require.True(t, p.ready(), "one byte lets a packet pass")
	p.spend(1200)
	require.False(t, p.ready())
	require.Equal(t, now.Add(1199*time.Microsecond+1200*time.Microsecond), p.next(1_000_000, 1200))
	p.refill(now.Add(1199*time.Microsecond), 1_000_000, 15_000)
	require.False(t, p.ready())
	p.refill(now.Add(1200*time.Microsecond), 1_000_000, 15_000)
	require.True(t, p.ready())
	p.refill(now.Add(time.Hour), 1_000_000, 15_000)
	require.Equal(t, 15_000.0, p.tokens, "the bucket overflows")
}

func TestBurst(t *testing.T) {
	require.Equal(t, 12_000.0, burst(12_000, 1200, 0), "no less than the initial window")
	require.Equal(t, 50_000.0, burst(100_000, 1200, 0), "half a window")
	require.Equal(t, float64(maxBurst), burst(10<<20, 1200, 0))
	require.Equal(t, 2_000_000.0, burst(10<<20, 1200, 1_000_000_000), "2 ms at a gigabyte a second")
}

// A frame on an idle path leaves at once, a long burst at the controller's rate.
func TestPacing(t *testing.T) {
	f := &fixedController{window: 1 << 20, rate: 1_000_000}
	w := newWorld(t, withController(f))
	log := newTestLog(0, 100_000)
	w.stream(w.subscribe(), log)
	require.GreaterOrEqual(t, len(w.run())*testMTU, 100_000)

	log.Append(content(100_000, 400_000))
	begin, n := w.clock.t, 0
	w.run()
	for w.s.dataWaits() {
		for _, p := range w.sleep(time.Second) {
			n += p.size
		}
	}
	require.NotZero(t, w.s.Stats().Reasons[BlockedPacing])
	require.InDelta(t, (400 * ms).Seconds(), w.clock.t.Sub(begin).Seconds(), 0.05)
}

func TestNoPacing(t *testing.T) {
	w := newWorld(t, withController(&fixedController{window: 1 << 20}))
	w.stream(w.subscribe(), newTestLog(0, 900_000))
	require.Greater(t, len(w.run()), 700)
}
