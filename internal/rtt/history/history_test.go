package history

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/report"
	"sluice/internal/rtt/report/reporttest"
)

const plenty = 1 << 30

var began = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// intervalAt returns an interval of a minute with a prefix, whose RTTs are all the same.
func intervalAt(start time.Time, prefix string, rtt time.Duration, count uint64) *report.Interval {
	h := report.Histogram{
		Count: count, Min: rtt, Max: rtt, Sum: time.Duration(count) * rtt, Width: 4 * time.Millisecond,
		Bins: make([]uint64, rtt/(4*time.Millisecond)+1),
	}
	h.Bins[len(h.Bins)-1] = count
	return &report.Interval{
		Start: start, End: start.Add(time.Minute), Aggregation: &report.Aggregation{},
		Prefixes: []report.Prefix{{Prefix: netip.MustParsePrefix(prefix), RTT: h}},
	}
}

func newTestWriter(t *testing.T, dir string, limit int64) *Writer {
	t.Helper()
	w, err := NewWriter(dir, limit, slog.Default())
	require.NoError(t, err)
	return w
}

// read returns the rows of a time.
func read(t *testing.T, dir string, from, to time.Time) (rows []Row) {
	t.Helper()
	require.NoError(t, Read(dir, from, to, func(r *Row) error {
		rows = append(rows, *r)
		return nil
	}))
	return rows
}

func always(t *testing.T, dir string) []Row {
	t.Helper()
	return read(t, dir, time.Time{}, began.AddDate(100, 0, 0))
}

func TestRowsComeBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	w := newTestWriter(t, dir, plenty)
	linear, logarithmic := reporttest.Interval(), reporttest.Logarithmic()
	require.NoError(t, errors.Join(w.Interval(linear), w.Interval(logarithmic), w.Close()))
	rows := always(t, dir)
	require.Len(t, rows, 3)
	require.Equal(t, "10.99.1.0/24", rows[0].Prefix)
	require.EqualValues(t, 5, rows[0].SentPackets)
	require.EqualValues(t, 300, rows[0].ReceivedBytes)
	require.EqualValues(t, 1, rows[0].Retransmissions)
	require.EqualValues(t, 2, rows[0].ECNMarked)
	require.Equal(t, linear.Prefixes[0].RTT, rows[0].Histogram())
	require.Equal(t, int64(linear.Prefixes[0].RTT.Quantile(0.95)), rows[0].P95)
	require.Equal(t, report.Histogram{}, rows[1].Histogram())
	require.Equal(t, logarithmic.Prefixes[0].RTT, rows[2].Histogram())
	require.True(t, rows[2].Start.Equal(logarithmic.Start.Truncate(time.Microsecond)))
}

func TestRowsWithBinsThatThereAreNot(t *testing.T) {
	for _, r := range []Row{
		{First: -1, Counts: []uint64{1}}, {First: 652, Counts: []uint64{1}},
		{First: 250, Counts: []uint64{1}, Width: 1}, {Width: -1},
	} {
		r.RTTs = 1
		require.Equal(t, report.Histogram{}, r.Histogram())
	}
}

func TestFilesByTime(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	for minute := range 35 {
		at := began.Add(time.Duration(minute) * time.Minute)
		require.NoError(t, w.Interval(intervalAt(at, "10.0.0.0/24", 10*time.Millisecond, 1)))
	}
	names, err := files(dir)
	require.NoError(t, err)
	require.Len(t, names, 3, "the last minutes wait for more")
	require.NoError(t, w.Close())
	require.Len(t, always(t, dir), 35)
	rows := read(t, dir, began.Add(9*time.Minute), began.Add(21*time.Minute))
	require.Len(t, rows, 12)
	require.Equal(t, began.Add(9*time.Minute), rows[0].Start)
	require.Equal(t, began.Add(20*time.Minute), rows[11].Start)
	require.Empty(t, read(t, dir, began.Add(time.Hour), began.Add(2*time.Hour)))
}

// The oldest files go. What does not belong to the history stays.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), make([]byte, 1<<20), 0o600))
	w := newTestWriter(t, dir, plenty)
	for hour := range 5 {
		at := began.Add(time.Duration(hour) * time.Hour)
		require.NoError(t, w.Interval(intervalAt(at, "10.0.0.0/24", time.Millisecond, 1)))
	}
	require.NoError(t, w.Close())
	names, err := files(dir)
	require.NoError(t, err)
	require.Len(t, names, 5)
	one, err := os.Stat(names[0])
	require.NoError(t, err)

	w = newTestWriter(t, dir, 2*one.Size()+one.Size()/2)
	rows := always(t, dir)
	require.Len(t, rows, 2)
	require.Equal(t, began.Add(3*time.Hour), rows[0].Start)
	require.NoError(t, w.Interval(intervalAt(began.Add(5*time.Hour), "10.0.0.0/24", time.Millisecond, 1)))
	require.NoError(t, w.Close())
	rows = always(t, dir)
	require.Len(t, rows, 2)
	require.Equal(t, began.Add(4*time.Hour), rows[0].Start)
	require.FileExists(t, filepath.Join(dir, "notes.txt"))
}

// What a killed process has begun is removed, and a file that is damaged is named.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, began.Format(nameFormat)+suffix+unfinished)
	require.NoError(t, os.WriteFile(part, []byte("PAR1"), 0o600))
	w := newTestWriter(t, dir, plenty)
	require.NoFileExists(t, part)
	require.NoError(t, errors.Join(w.Interval(intervalAt(began, "10.0.0.0/24", time.Millisecond, 1)), w.Close()))
	names, err := files(dir)
	require.NoError(t, err)
	whole, err := os.ReadFile(names[0])
	require.NoError(t, err)
	for _, damaged := range [][]byte{nil, []byte("no"), whole[:len(whole)/2], bytes.Repeat([]byte("x"), 1000)} {
		require.NoError(t, os.WriteFile(names[0], damaged, 0o600))
		err := Read(dir, time.Time{}, began.AddDate(1, 0, 0), func(*Row) error { return nil })
		require.ErrorContains(t, err, names[0])
	}
}

// A full disk is no reason to stop measuring.
func TestFilesThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	var log bytes.Buffer
	w, err := NewWriter(dir, plenty, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, errors.Join(w.Interval(intervalAt(began, "10.0.0.0/24", time.Millisecond, 1)), w.Close()))
	require.Contains(t, log.String(), "the history is not complete")
	require.Contains(t, log.String(), "rows=1")
}
