package congestion

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

func TestRTTEstimate(t *testing.T) {
	const ms = time.Millisecond
	var r RTT
	require.Equal(t, 2*initialRTT+25*ms, r.PTO(25*ms))
	require.Equal(t, initialRTT*9/8, r.LossDelay())

	r.Update(1, 100*ms, 50*ms) // the first sample is taken as it is
	require.Equal(t, [4]time.Duration{100 * ms, 100 * ms, 100 * ms, 50 * ms},
		[4]time.Duration{r.Latest, r.Min, r.Smoothed, r.Variance})
	require.Equal(t, 325*ms, r.PTO(25*ms))

	r.Update(2, 180*ms, 20*ms) // adjusted to 160 ms
	require.Equal(t, 100*ms, r.Min)
	require.Equal(t, 107500*time.Microsecond, r.Smoothed)
	require.Equal(t, (3*50*ms+60*ms)/4, r.Variance)
	require.Equal(t, 180*ms*9/8, r.LossDelay())

	r.Update(3, 110*ms, 20*ms) // an adjustment below the minimum is not made
	require.Equal(t, (7*107500*time.Microsecond+110*ms)/8, r.Smoothed)
	r.Update(4, 60*ms, 0)
	require.Equal(t, 60*ms, r.Min)
	require.Equal(t, clock.Time(1), r.First)
}

// TestLongest forgets a long sample in the period after the next one.
func TestLongest(t *testing.T) {
	const ms = time.Millisecond
	var r RTT
	require.Zero(t, r.Longest())
	at := clock.Time(0)
	for _, step := range []struct{ after, sample, ackDelay, want time.Duration }{
		{longestPeriod, 40 * ms, 0, 40 * ms},
		{10 * ms, 140 * ms, 20 * ms, 120 * ms},
		{10 * ms, 50 * ms, 0, 120 * ms},
		{longestPeriod, 50 * ms, 0, 120 * ms},
		{longestPeriod, 45 * ms, 0, 50 * ms},
	} {
		at = at.Add(step.after)
		r.Update(at, step.sample, step.ackDelay)
		require.Equal(t, step.want, r.Longest())
	}
}
