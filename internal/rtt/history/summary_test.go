package history

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/report"
)

func TestSummarize(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	require.NoError(t, w.Interval(intervalAt(began, "10.0.2.0/24", 900*time.Millisecond, minRTTs-1)))
	const minutes = 24 * 60
	for minute := range minutes {
		at := began.Add(time.Duration(minute) * time.Minute)
		slow := 40 * time.Millisecond
		if minute >= minutes/2 {
			slow = 80 * time.Millisecond
		}
		require.NoError(t, errors.Join(
			w.Interval(intervalAt(at, "10.0.0.0/24", 10*time.Millisecond, 3)),
			w.Interval(intervalAt(at, "10.0.1.0/24", slow, 1)),
		))
	}
	require.NoError(t, w.Close())

	s, err := Summarize(dir, Query{To: began.AddDate(1, 0, 0)}, 10)
	require.NoError(t, err)
	require.Equal(t, began, s.From.UTC())
	require.Equal(t, began.Add(minutes*time.Minute), s.To.UTC())
	require.Equal(t, 6*time.Minute, s.Step)
	require.Len(t, s.All.Points, maxSteps)
	require.Equal(t, 3, s.Prefixes)
	require.EqualValues(t, 4*minutes+minRTTs-1, s.All.RTT.Count)
	require.Empty(t, s.All.Changes, "the median of all is that of the fast one")
	require.Len(t, s.Worst, 2, "a prefix with few RTTs says nothing")
	require.Equal(t, "10.0.1.0/24", s.Worst[0].Prefix)
	require.Equal(t, 80*time.Millisecond, s.Worst[0].RTT.Quantile(0.95))
	require.Equal(t, []Change{{
		At: began.Add(minutes / 2 * time.Minute), Before: 40 * time.Millisecond, After: 80 * time.Millisecond,
	}}, s.Worst[0].Changes)
	require.Empty(t, s.Worst[1].Changes)
	require.Len(t, s.Days, 2, "from noon to noon")
	require.Zero(t, s.Days[0].Hours[11].Count)
	require.EqualValues(t, 4*60, s.Days[1].Hours[11].Count)

	part, err := Summarize(dir, Query{From: began.Add(time.Hour), To: began.Add(2 * time.Hour)}, 1)
	require.NoError(t, err)
	require.Equal(t, time.Minute, part.Step)
	require.Len(t, part.Worst, 1)
	require.Len(t, part.All.Points, 60)

	_, err = Summarize(dir, Query{From: began.AddDate(1, 0, 0), To: began.AddDate(2, 0, 0)}, 1)
	require.ErrorIs(t, err, ErrEmpty)
}

// TestSummarizeStreams: what a series has does not grow with the steps, apart from their points.
func TestSummarizeStreams(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	for step := range maxSteps {
		at, rtt := began.Add(time.Duration(step)*time.Minute), time.Duration(1+step)*time.Millisecond
		require.NoError(t, w.Interval(intervalAt(at, "10.0.0.0/24", rtt, minRTTs)))
	}
	require.NoError(t, w.Close())
	o, err := look(dir, Query{From: began, To: began.AddDate(1, 0, 0)})
	require.NoError(t, err)
	s := newSummarizer(o)
	require.NoError(t, Read(dir, began, began.AddDate(1, 0, 0), s.add))
	one := s.each[""]["10.0.0.0/24"]
	require.Len(t, one.steps.points, maxSteps-1)
	require.EqualValues(t, minRTTs, one.steps.sum.Count, "the last step alone is a histogram")
	s.finish(1)
	for step, p := range s.Worst[0].Points {
		want := time.Duration(1+step) * time.Millisecond
		require.Equal(t, Point{began.Add(time.Duration(step) * time.Minute), minRTTs, want, want, want}, p)
	}
}

// A clock that is set back makes a second point of the same time.
func TestSummarizeClock(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	for _, minute := range []time.Duration{0, 1, 0, 1} {
		at := began.Add(minute * time.Minute)
		require.NoError(t, w.Interval(intervalAt(at, "10.0.0.0/24", time.Millisecond, minRTTs)))
	}
	require.NoError(t, w.Close())
	s, err := Summarize(dir, Query{From: began, To: began.AddDate(1, 0, 0)}, 1)
	require.NoError(t, err)
	require.EqualValues(t, 4*minRTTs, s.All.RTT.Count)
	require.Len(t, s.All.Points, 4)
	require.True(t, slices.IsSortedFunc(s.All.Points, func(a, b Point) int { return a.At.Compare(b.At) }))
}

// Bins of different widths cannot be added: those of the first rows count.
func TestSummarizeSkips(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	other := intervalAt(began.Add(time.Minute), "10.0.0.0/24", 10*time.Millisecond, 5)
	other.Prefixes[0].RTT.Width = time.Millisecond
	require.NoError(t, errors.Join(
		w.Interval(intervalAt(began, "10.0.0.0/24", 10*time.Millisecond, 3)), w.Interval(other), w.Close()))
	s, err := Summarize(dir, Query{To: began.AddDate(1, 0, 0)}, 1)
	require.NoError(t, err)
	require.Equal(t, 1, s.Skipped)
	require.EqualValues(t, 3, s.All.RTT.Count)
}

func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		medians []int // ms, of 10 points each
		want    string
	}{
		"none":                       {[]int{20, 20, 20}, "[]"},
		"up and down":                {[]int{20, 40, 20}, "[10: 20ms to 40ms 20: 40ms to 20ms]"},
		"by too small a factor":      {[]int{20, 28}, "[]"},
		"by a factor of very little": {[]int{0, 0}, "[]"},
		"slowly":                     {[]int{20, 27, 36, 48}, "[]"},
		"too short":                  {[]int{}, "[]"},
	} {
		var points []Point
		for _, median := range test.medians {
			for range 10 {
				at := began.Add(time.Duration(len(points)) * time.Minute)
				points = append(points, Point{At: at, P50: time.Duration(median) * time.Millisecond})
			}
		}
		var got []string
		for _, c := range findChanges(points) {
			got = append(got, fmt.Sprintf("%.0f: %v to %v", c.At.Sub(began).Minutes(), c.Before, c.After))
		}
		require.Equal(t, test.want, fmt.Sprint(got), name)
	}
	outlier := make([]Point, 30)
	for i := range outlier {
		outlier[i].P50 = 20 * time.Millisecond
	}
	outlier[15].P50 = time.Second
	require.Empty(t, findChanges(outlier), "one slow step is no change")
}

func TestStep(t *testing.T) {
	for _, c := range []struct{ d, interval, want time.Duration }{
		{0, 0, time.Minute},
		{4 * time.Hour, time.Second, time.Minute},
		{5 * time.Hour, time.Minute, 2 * time.Minute},
		{24 * time.Hour, time.Minute, 6 * time.Minute},
		{24 * time.Hour, 5 * time.Minute, 10 * time.Minute},
		{7 * 24 * time.Hour, 10 * time.Second, 42 * time.Minute},
		{time.Hour, 30 * time.Minute, 30 * time.Minute},
	} {
		require.Equal(t, c.want, stepOf(c.d, c.interval), "%v", c)
	}
	require.Zero(t, (&Row{}).Histogram().Count)
	var _ report.Sink = (*Writer)(nil)
}
