package history

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
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

	totals, err := Total(dir, Query{To: i.End.AddDate(1, 0, 0)})
	require.NoError(t, err)
	require.True(t, totals.From.Equal(i.Start.Truncate(time.Microsecond)))
	require.True(t, totals.To.Equal(other.End.Truncate(time.Microsecond)))
	require.Len(t, totals.Prefixes, 1)
	s := totals.Prefixes[0]
	require.Equal(t, p.Label(), s.Prefix)
	require.EqualValues(t, 2*minRTTs, s.RTT.Count)
	require.EqualValues(t, 2, s.Parts["idle"].Count)
	require.EqualValues(t, 3*(300+70+10), s.Bytes)
	require.Equal(t, Congestion{TCPSegments: 24, Retransmissions: 3, ECNCapable: 18, ECNMarked: 6}, s.Congestion)
	require.Equal(t, Direction{
		Congestion{TCPSegments: 15, Retransmissions: 3, ECNCapable: 12, ECNMarked: 3},
		report.Loss{All: 3 * 128, Passed: 3 * 126, Reported: 3 * 4},
	}, s.Sent)
	require.Equal(t, Direction{Congestion{TCPSegments: 9, ECNCapable: 6, ECNMarked: 3}, report.Loss{}}, s.Received)
	require.Equal(t, report.Loss{All: 3 * 128, Passed: 3 * 126, Reported: 3 * 4}, s.Loss)

	_, err = Total(dir, Query{From: i.End.AddDate(1, 0, 0), To: i.End.AddDate(2, 0, 0)})
	require.ErrorIs(t, err, ErrEmpty)
}

// A query may be for a prefix, with all that tells its aggregates apart, or for one of these.
func TestQueryOfAPrefix(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	i := reporttest.Parts()
	i.Prefixes = i.Prefixes[:1]
	i.Prefixes[0].RTT.Count, i.Prefixes[0].RTT.Bins = minRTTs, []uint64{0, minRTTs}
	other, neighbour := i.Prefixes[0], i.Prefixes[0]
	other.VLAN.ID = 8
	neighbour.Prefix = netip.MustParsePrefix("10.99.10.0/24")
	i.Prefixes = append(i.Prefixes, other, neighbour)
	require.NoError(t, errors.Join(w.Interval(i), w.Close()))
	ask := Query{To: i.End.AddDate(1, 0, 0)}
	for prefix, want := range map[string]int{"": 3, "10.99.1.0/24": 2, other.Label(): 1, "10.99.10.0/24": 1} {
		ask.Prefix = prefix
		totals, err := Total(dir, ask)
		require.NoError(t, err)
		require.Len(t, totals.Prefixes, want, prefix)
	}
	ask.Prefix = "10.99.1.0"
	_, err := Total(dir, ask)
	require.ErrorIs(t, err, ErrNoPrefix)
}
