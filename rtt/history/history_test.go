package history

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
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

func newTestWriter(t testing.TB, dir string, limit int64) *Writer {
	t.Helper()
	w, err := NewWriter(dir, Limits{Size: limit}, slog.Default())
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
	require.Equal(t, []uint64{8, 1, 6, 2, 5, 1, 4, 1, 3, 0, 2, 1}, []uint64{
		rows[0].TCPSegments, rows[0].Retransmissions, rows[0].ECNCapable, rows[0].ECNMarked,
		rows[0].SentTCPSegments, rows[0].SentRetransmissions, rows[0].SentECNCapable, rows[0].SentECNMarked,
		rows[0].ReceivedTCPSegments, rows[0].ReceivedRetransmissions, rows[0].ReceivedECNCapable,
		rows[0].ReceivedECNMarked,
	})
	require.Equal(t, []uint64{128, 126, 4, 0}, []uint64{
		rows[0].QUICSent, rows[0].QUICSentPassed, rows[0].QUICSentReported, rows[0].QUICReceived,
	})
	require.Equal(t, linear.Prefixes[0].RTT, histogram(&rows[0]))
	require.Equal(t, int64(linear.Prefixes[0].RTT.Quantile(0.95)), rows[0].P95)
	require.Equal(t, report.Histogram{}, histogram(&rows[1]))
	require.Equal(t, logarithmic.Prefixes[0].RTT, histogram(&rows[2]))
	require.True(t, rows[2].Start.Equal(logarithmic.Start.Truncate(time.Microsecond)))
}

// Files of a version that knew fewer columns can be read.
func TestOlderFiles(t *testing.T) {
	type row struct {
		Start  time.Time `parquet:"start,timestamp(microsecond)"`
		End    time.Time `parquet:"end,timestamp(microsecond)"`
		Prefix string    `parquet:"prefix,dict"`
		RTTs   uint64    `parquet:"rtts"`
	}
	dir := t.TempDir()
	name := filepath.Join(dir, began.Format(nameFormat)+suffix)
	require.NoError(t, parquet.WriteFile(name, []row{{began, began.Add(time.Minute), "10.99.1.0/24", 7}}))
	rows := always(t, dir)
	require.Len(t, rows, 1)
	require.EqualValues(t, 7, rows[0].RTTs)
	require.Equal(t, "10.99.1.0/24", rows[0].Prefix)
	require.Zero(t, rows[0].QUICSent)
}

func TestPartsComeBack(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	i := reporttest.Parts()
	require.NoError(t, errors.Join(w.Interval(i), w.Close()))
	rows := always(t, dir)
	require.Len(t, rows, 1)
	require.Equal(t, "10.99.1.0/24+192.0.2.0/24 TCP on eth1 vlan 100.7", rows[0].About().Label())
	require.EqualValues(t, 100, rows[0].VLAN)
	require.EqualValues(t, 7, rows[0].InnerVLAN)
	require.Len(t, rows[0].Parts, 5)
	for n, want := range i.Prefixes[0].Parts() {
		require.Equal(t, want.Name, rows[0].Parts[n].Name)
		require.Equal(t, *want.RTTs, partHistogram(&rows[0], n))
	}
}

// A prefix may have nothing but one part, whose bins are of one width.
func TestPartsWithoutRTTsComeBack(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	i := reporttest.Parts()
	want := i.Prefixes[0].OneDirection
	i.Prefixes[0] = report.Prefix{Prefix: i.Prefixes[0].Prefix, OneDirection: want}
	require.NoError(t, errors.Join(w.Interval(i), w.Close()))
	rows := always(t, dir)
	require.Len(t, rows, 1)
	require.Len(t, rows[0].Parts, 1)
	require.Equal(t, want, partHistogram(&rows[0], 0))
}

// Files that an earlier version wrote have fewer columns.
func TestOldFiles(t *testing.T) {
	type oldRow struct {
		Start  time.Time `parquet:"start,timestamp(microsecond)"`
		Prefix string    `parquet:"prefix,dict"`
		RTTs   uint64    `parquet:"rtts"`
		Min    int64     `parquet:"rtt_min"`
		First  int32     `parquet:"first_bin"`
		Counts []uint64  `parquet:"bins,list"`
	}
	dir := t.TempDir()
	name := filepath.Join(dir, began.Format(nameFormat)+suffix)
	require.NoError(t, parquet.WriteFile(name, []oldRow{{
		Start: began, Prefix: "192.0.2.0/24", RTTs: 3, Min: 7, First: 2, Counts: []uint64{1, 2},
	}}))
	require.Equal(t, []Row{{
		Start: began, Prefix: "192.0.2.0/24", RTTs: 3, Min: 7, First: 2, Counts: []uint64{1, 2},
	}}, withoutEmpty(always(t, dir)))
}

// withoutEmpty makes empty lists nil.
func withoutEmpty(rows []Row) []Row {
	for i := range rows {
		if len(rows[i].Parts) == 0 {
			rows[i].Parts = nil
		}
		rows[i].End = time.Time{}
	}
	return rows
}

// histogram returns the histogram of a row.
func histogram(r *Row) report.Histogram {
	h := report.Histogram{
		Count: r.RTTs, Min: time.Duration(r.Min), Max: time.Duration(r.Max), Sum: time.Duration(r.Sum),
	}
	if h.Count > 0 {
		h.Width, h.Bins = time.Duration(r.Width), append(make([]uint64, r.First), r.Counts...)
	}
	return h
}

// partHistogram returns the histogram of a part of a row.
func partHistogram(r *Row, n int) report.Histogram {
	p := &r.Parts[n]
	return histogram(&Row{
		RTTs: p.RTTs, Min: p.Min, Max: p.Max, Sum: p.Sum, Width: r.Width, First: p.First, Counts: p.Counts,
	})
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

// The oldest files go. Files that do not belong to the history stay.
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
	one, err := os.Stat(names[0].path)
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

// Old files go. A clock that is wrong for a moment removes nothing: an old file was old the last time, too.
func TestAge(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWriter(dir, Limits{Size: plenty, Age: time.Hour}, slog.Default())
	require.NoError(t, err)
	for _, at := range []time.Duration{0, time.Hour, 1000 * time.Hour, 2 * time.Hour} {
		require.NoError(t, w.Interval(intervalAt(began.Add(at), "10.0.0.0/24", time.Millisecond, 1)))
	}
	w.write()
	require.Len(t, read(t, dir, began.Add(time.Hour), began.Add(3*time.Hour)), 2)
	require.NoError(t, w.Interval(intervalAt(began.Add(4*time.Hour), "10.0.0.0/24", time.Millisecond, 1)))
	w.write()
	require.NoError(t, w.Interval(intervalAt(began.Add(5*time.Hour), "10.0.0.0/24", time.Millisecond, 1)))
	require.NoError(t, w.Close())
	require.Empty(t, read(t, dir, began, began.Add(3*time.Hour)))
	require.Len(t, read(t, dir, began.Add(3*time.Hour), began.Add(6*time.Hour)), 2)
}

// If the clock is set, a file ends: readers find rows by when the file begins.
func TestClockIsSet(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	for _, at := range []time.Time{began, began.Add(time.Minute), began.Add(-time.Hour), began.Add(5 * time.Hour)} {
		require.NoError(t, w.Interval(intervalAt(at, "10.0.0.0/24", time.Millisecond, 1)))
	}
	require.NoError(t, w.Close())
	require.Len(t, read(t, dir, began, began.Add(time.Hour)), 2)
	require.Len(t, read(t, dir, began.Add(-2*time.Hour), began), 1)
	require.Len(t, read(t, dir, began.Add(4*time.Hour), began.Add(6*time.Hour)), 1)
}

// A file that a killed process has begun is removed, and a damaged file is named.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, began.Format(nameFormat)+suffix+unfinished)
	require.NoError(t, os.WriteFile(part, []byte("PAR1"), 0o600))
	w := newTestWriter(t, dir, plenty)
	require.NoFileExists(t, part)
	require.NoError(t, errors.Join(w.Interval(intervalAt(began, "10.0.0.0/24", time.Millisecond, 1)), w.Close()))
	names, err := files(dir)
	require.NoError(t, err)
	whole, err := os.ReadFile(names[0].path)
	require.NoError(t, err)
	for _, damaged := range [][]byte{nil, []byte("no"), whole[:len(whole)/2], bytes.Repeat([]byte("x"), 1000)} {
		require.NoError(t, os.WriteFile(names[0].path, damaged, 0o600))
		err := Read(dir, time.Time{}, began.AddDate(1, 0, 0), func(*Row) error { return nil })
		require.ErrorContains(t, err, names[0].path)
	}
	// The library panics at some of the bytes behind the pages, where it is told where they are.
	for at := len(whole) * 4 / 5; ; at++ {
		require.Less(t, at, len(whole), "the library does not panic any more")
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x10
		require.NoError(t, os.WriteFile(names[0].path, damaged, 0o600))
		err := Read(dir, time.Time{}, began.AddDate(1, 0, 0), func(*Row) error { return nil })
		if err == nil {
			continue
		}
		require.ErrorContains(t, err, names[0].path)
		if strings.Contains(err.Error(), "damaged: ") {
			break
		}
	}
}

// FuzzFile reads any file. If it is damaged, an error names it. Memory and time have no limit, as files are this
// program's own: the library allocates what the header of a page claims, 2 GiB at most, before it reads the page, and
// counts to 2^31 doubles of a list that it skips, for half a minute, without noticing that the file has ended.
func FuzzFile(f *testing.F) {
	dir := f.TempDir()
	w := newTestWriter(f, dir, plenty)
	require.NoError(f, w.Interval(intervalAt(began, "10.0.0.0/24", 5*time.Millisecond, 1)))
	parts := reporttest.Parts()
	parts.Start = began
	require.NoError(f, errors.Join(w.Interval(parts), w.Close()))
	list, err := files(dir)
	require.NoError(f, err)
	whole, err := os.ReadFile(list[0].path)
	require.NoError(f, err)
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		err := list[0].readFrom(bytes.NewReader(b), int64(len(b)), func(*Row) error { return nil })
		if err != nil {
			require.ErrorContains(t, err, list[0].path)
		}
	})
}

// Two writers do not share a folder: the second one would remove the file that the first is writing.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	part := filepath.Join(dir, began.Format(nameFormat)+suffix+unfinished)
	require.NoError(t, os.WriteFile(part, nil, 0o600))
	_, err := NewWriter(dir, Limits{Size: plenty}, slog.Default())
	require.ErrorContains(t, err, "another process writes to this history")
	require.FileExists(t, part)
	require.NoError(t, w.Close())
	require.NoError(t, newTestWriter(t, dir, plenty).Close())
	require.NoFileExists(t, part)
}

// A file that is there already belongs to somebody else.
func TestFileThatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path+unfinished, []byte("theirs"), 0o600))
	require.ErrorIs(t, create(path, nil), os.ErrExist)
	require.FileExists(t, path+unfinished)
}

// A full disk is no reason to stop measuring.
func TestFilesThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	var log bytes.Buffer
	w, err := NewWriter(dir, Limits{Size: plenty}, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, errors.Join(w.Interval(intervalAt(began, "10.0.0.0/24", time.Millisecond, 1)), w.Close()))
	require.Contains(t, log.String(), "the history is not complete")
	require.Contains(t, log.String(), "rows=1")
}
