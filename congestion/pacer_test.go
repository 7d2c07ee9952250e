package congestion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

func TestPacer(t *testing.T) {
	var p Pacer
	now := clock.Time(time.Second)
	p.Refill(now, 1_000_000, 30_000, 1200)
	require.True(t, p.Ready())
	p.Spend(14_999)
	require.True(t, p.Ready(), "one byte lets a packet pass")
	p.Spend(1200)
	require.False(t, p.Ready())
	require.Equal(t, now.Add(1199*time.Microsecond+1200*time.Microsecond), p.Next(1_000_000, 1200))
	p.Refill(now.Add(1199*time.Microsecond), 1_000_000, 30_000, 1200)
	require.False(t, p.Ready())
	p.Refill(now.Add(1200*time.Microsecond), 1_000_000, 30_000, 1200)
	require.True(t, p.Ready())
	p.Refill(now.Add(time.Hour), 1_000_000, 30_000, 1200)
	require.Equal(t, 15_000.0, p.tokens, "half a window, no more")
}

func TestBurst(t *testing.T) {
	require.Equal(t, 12_000.0, burst(12_000, 1200, 0), "no less than the initial window")
	require.Equal(t, 50_000.0, burst(100_000, 1200, 0), "half a window")
	require.Equal(t, float64(maxBurst), burst(10<<20, 1200, 0))
	require.Equal(t, 2_000_000.0, burst(10<<20, 1200, 1_000_000_000), "2 ms at a gigabyte a second")
}
