package pathprofile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProfiles(t *testing.T) {
	const period = 30 * time.Second
	require.Len(t, All(), len(Names()))
	for _, p := range All() {
		points := p.Rates(period, 1)
		require.Equal(t, points, p.Rates(period, 1), p.Name)
		require.Zero(t, points[0].At, p.Name)
		require.Positive(t, points[0].Rate, p.Name)
		for i := range points[1:] {
			require.Greater(t, points[i+1].At, points[i].At, p.Name)
			require.GreaterOrEqual(t, points[i+1].Rate, 0., p.Name)
		}
		require.Positive(t, p.RTT, p.Name)
		require.Positive(t, p.Queue, p.Name)
		found, ok := Find(p.Name)
		require.True(t, ok)
		require.Equal(t, p.Title, found.Title)
	}
	step, _ := Find("step")
	require.NotEqual(t, step.Rates(period, 1), step.Rates(period, 2))
	require.Len(t, step.Rates(10*time.Millisecond, 1), 1, "changes after the end do not count")
	_, ok := Find("none")
	require.False(t, ok)
}

// mean returns the mean rate.
func mean(points []Point, period time.Duration) (mean, lowest float64) {
	lowest = points[0].Rate
	for i, p := range points {
		end := period
		if i+1 < len(points) {
			end = points[i+1].At
		}
		mean += p.Rate * float64(end-p.At) / float64(period)
		lowest = min(lowest, p.Rate)
	}
	return mean, lowest
}

func TestSawtooth(t *testing.T) {
	points := sawtooth(10*time.Second, 0)
	require.Equal(t, Point{0, 1.5}, points[0])
	require.Equal(t, Point{5 * time.Second, 1.5}, points[20])
	m, lowest := mean(points, 10*time.Second)
	require.InDelta(t, .95, m, .001)
	require.InDelta(t, .4, lowest, 1e-9)
}

// TestLTE compares ten minutes with the model's parameters.
func TestLTE(t *testing.T) {
	const period = 10 * time.Minute
	for seed := range uint64(5) {
		points := lte(period, seed)
		require.Len(t, points, 6000)
		m, lowest := mean(points, period)
		require.InDelta(t, 1.2, m, .35, "seed %d", seed)
		require.Less(t, lowest, .15, "seed %d", seed)
	}
	require.NotEqual(t, lte(period, 1), lte(period, 2))
}
