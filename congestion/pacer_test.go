package congestion

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

func TestPacer(t *testing.T) {
	var at atomic.Uint64
	now := clock.Time(time.Second)
	p := NewPacer(1_000_000, 30_000, 1200)
	Pacer{}.Refill(&at, now, p)
	require.True(t, p.Ready(&at, now))
	p.Spend(&at, now, 14_999)
	require.True(t, p.Ready(&at, now), "one byte lets a packet pass")
	p.Spend(&at, now, 1200)
	require.False(t, p.Ready(&at, now))
	require.InDelta(t, 2399*time.Microsecond, p.Next(&at, 1200).Sub(now), 10)
	require.False(t, p.Ready(&at, now.Add(1199*time.Microsecond-10)))
	require.True(t, p.Ready(&at, now.Add(1200*time.Microsecond)))
	now = now.Add(time.Hour)
	require.Equal(t, 15_000.0, p.tokens(clock.Time(at.Load()), now), "half a window, no more")

	p.Spend(&at, now, 5_000)
	for _, v := range []struct{ rate, window, want int }{
		{1_000_000, 60_000, 10_000}, // the tokens stay
		{50_000, 60_000, 10_000},
		{5_000_000, 10_000, 10_000},
		{5_000_000, 30_000, 10_000},
		{50_000_000, 10 << 20, 10_000},
	} {
		next := NewPacer(int64(v.rate), v.window, 1200)
		p.Refill(&at, now, next)
		p = next
		require.InDelta(t, v.want, p.tokens(clock.Time(at.Load()), now), 60, "%+v", v)
	}
	p.Spend(&at, now, 1<<30)
	p.Spend(&at, now, 1200)
	full := clock.Time(at.Load()).Sub(now)
	require.Equal(t, 2*time.Duration(p.Burst)*time.Microsecond+time.Duration(1200*uint64(p.Cost)>>10), full)
	p.Spend(&at, now, 1200)
	require.Equal(t, full, clock.Time(at.Load()).Sub(now), "the debt has a limit")

	require.Zero(t, NewPacer(0, 30_000, 1200))
	require.True(t, Pacer{}.Ready(&at, now), "it does not pace")
	Pacer{}.Spend(&at, now, 1200)
	require.Equal(t, full, clock.Time(at.Load()).Sub(now))
}

func TestBurst(t *testing.T) {
	require.Equal(t, 12_000.0, burst(12_000, 1200, 0), "no less than the initial window")
	require.Equal(t, 50_000.0, burst(100_000, 1200, 0), "half a window")
	require.Equal(t, float64(maxBurst), burst(10<<20, 1200, 0))
	require.Equal(t, 2_000_000.0, burst(10<<20, 1200, 1_000_000_000), "2 ms at a gigabyte a second")
}

// Packets that are to leave one by one come in bursts of two, or of 2 ms on fast paths.
func TestSmoothBurst(t *testing.T) {
	for packets, want := range map[int]time.Duration{10: 160 * ms, 10_000: pacerTick} {
		p := PacerOf(pragueWith(packets, 0), time.Second, 1000)
		require.InEpsilon(t, want, time.Duration(p.Burst)*time.Microsecond, 1e-3)
	}
}
