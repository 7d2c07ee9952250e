package history

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/report"
	"sluice/internal/rtt/report/reporttest"
)

func TestTotal(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	i := reporttest.Parts()
	p := &i.Prefixes[0]
	p.RTT.Count, p.RTT.Bins = minRTTs, []uint64{0, minRTTs}
	other := *i // with bins of another width
	other.Start, other.End = i.End, i.End.Add(time.Minute)
	other.Prefixes = []report.Prefix{*p}
	other.Prefixes[0].RTT.Width = time.Millisecond
	require.NoError(t, errors.Join(w.Interval(i), w.Interval(i), w.Interval(&other), w.Close()))

	totals, err := Total(dir, time.Time{}, i.End.AddDate(1, 0, 0))
	require.NoError(t, err)
	require.True(t, totals.From.Equal(i.Start.Truncate(time.Microsecond)))
	require.True(t, totals.To.Equal(other.End.Truncate(time.Microsecond)))
	require.Len(t, totals.Prefixes, 1)
	s := totals.Prefixes[0]
	require.Equal(t, p.Label(), s.Prefix)
	require.EqualValues(t, 2*minRTTs, s.RTT.Count)
	require.EqualValues(t, 2, s.Parts["idle"].Count)
	require.EqualValues(t, 3*(300+70+10), s.Bytes)
	require.EqualValues(t, 3*(3+4+1), s.TCPSegments)
	require.EqualValues(t, 3, s.Retransmissions)
	require.Equal(t, report.Loss{All: 3 * 128, Passed: 3 * 126, Reported: 3 * 4}, s.Loss)

	_, err = Total(dir, i.End.AddDate(1, 0, 0), i.End.AddDate(2, 0, 0))
	require.ErrorIs(t, err, ErrEmpty)
}
