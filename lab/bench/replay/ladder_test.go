package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/pathprofile"
	"sluice/lab/bench/playback"
)

// The relay finds the rendition that fits, and stays with it but for a trial in the second minute.
func TestLadder(t *testing.T) {
	t.Parallel()
	m, subject := Ladder(time.Minute), named(t, "bytes", "cubic")
	wide := replayed(t, m.On(profile(t, "wide"), 1), subject, 1)
	require.Equal(t, [2]float64{1, 1}, [2]float64{wide.Playable, wide.Fit})
	require.Zero(t, wide.Switches)

	narrow := replayed(t, m.On(profile(t, "constant"), 1), subject, 1)
	require.Equal(t, [2]float64{1, 1}, [2]float64{narrow.Keys, narrow.Audio})
	require.Greater(t, narrow.Fit, .9)
	require.LessOrEqual(t, narrow.Switches, 2)
	require.Equal(t, narrow, replayed(t, m.On(profile(t, "constant"), 1), subject, 1), "it is repeatable")
}

// Of a trace with renditions, the best one has the rate of the media.
func TestLadderTrace(t *testing.T) {
	t.Parallel()
	tr := Ladder(4*time.Second).On(profile(t, "constant"), 1)
	require.InDelta(t, 2.096e6, tr.Rate(), 2e4)
	require.Equal(t, []float64{2e6, 1e6, 4e5}, tr.bitrates)
}

// Which rendition fits follows from the path, and is not asked for until there was time to find it.
func TestFitting(t *testing.T) {
	t.Parallel()
	fitting := func(p pathprofile.Profile) []int { return Ladder(time.Minute).On(p, 1).Fitting() }
	at := func(steps []int, d time.Duration) int { return steps[d/FittingStep] }
	narrow := fitting(profile(t, "constant"))
	require.Equal(t, []int{playback.Unsettled, 1, 1}, []int{
		at(narrow, settling-FittingStep), at(narrow, settling), at(narrow, time.Minute-FittingStep)})
	step := fitting(profile(t, "step"))
	require.Equal(t, []int{2, playback.Unsettled}, []int{at(step, settling), at(step, 25*time.Second)})
}
