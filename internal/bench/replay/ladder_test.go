package replay

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/pathprofile"
	"sluice/internal/bench/playback"
	"sluice/internal/rendition"
)

func chosen(t testing.TB, rule rendition.Rule) Subject {
	s := named(t, "bytes", "cubic")
	s.Rule = rule
	return s
}

// Whoever chooses finds the rendition that fits, and stays with it but for a trial in the second minute.
func TestLadder(t *testing.T) {
	t.Parallel()
	m := Ladder(time.Minute)
	for _, rule := range rendition.Rules() {
		wide := replayed(t, m.On(profile(t, "wide"), 1), chosen(t, rule), 1)
		require.Equal(t, [2]float64{1, 1}, [2]float64{wide.Playable, wide.Fit}, rule)
		require.Zero(t, wide.Switches, rule)

		narrow := replayed(t, m.On(profile(t, "constant"), 1), chosen(t, rule), 1)
		require.Equal(t, [2]float64{1, 1}, [2]float64{narrow.Keys, narrow.Audio}, rule)
		require.Greater(t, narrow.Fit, .9, rule)
		require.LessOrEqual(t, narrow.Switches, 2, rule)
		require.Equal(t, narrow, replayed(t, m.On(profile(t, "constant"), 1), chosen(t, rule), 1), "it is repeatable")
	}
}

// Who joins behind a bottleneck finds the rendition that fits, too, wherever the group is then: what slow start loses
// makes less arrive at first than the path carries. Rates are in kbit/s.
func TestLadderJoin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		join, rtt time.Duration
		rate      int64
	}{
		{300 * time.Millisecond, 120 * time.Millisecond, 1360},
		{time.Second, 10 * time.Millisecond, 1360},
		{time.Second, 10 * time.Millisecond, 1570},
		{time.Second, 120 * time.Millisecond, 1570},
	} {
		tr := Ladder(40*time.Second).From(tt.join).On(profile(t, "constant"), 1)
		tr.Path[0].Rate, tr.Path[0].RTT = 1000*tt.rate, Seconds(tt.rtt)
		for _, rule := range rendition.Rules() {
			require.Greater(t, replayed(t, tr, chosen(t, rule), 1).Fit, .85, "%v: %v", rule, tt)
		}
	}
}

// Of a trace with renditions, the best one has the rate of the media, and they are read as they were written.
func TestLadderTrace(t *testing.T) {
	t.Parallel()
	want := Ladder(4*time.Second).On(profile(t, "constant"), 1)
	require.InDelta(t, 2.096e6, want.Rate(), 2e4)
	require.Equal(t, []int{2, 1, 0}, want.renditions())
	got, err := Read(bytes.NewReader(encode(t, want)))
	require.NoError(t, err)
	require.Equal(t, want.Tracks, got.Tracks)
	want.Tracks[3].Bitrate = 1
	require.ErrorContains(t, want.Validate(), "audio cannot be a rendition")
	want.Tracks[3].Bitrate, want.Tracks[0].Bitrate = 0, -1
	require.ErrorContains(t, want.Validate(), "bitrate: -1")
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
