package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/report"
	"sluice/internal/thorough"
)

// someRTTs returns a histogram of so many RTTs around a time.
func someRTTs(r *rand.Rand, count int, around time.Duration) (h report.Histogram) {
	for range count {
		rtt := time.Duration(float64(around) * math.Exp(r.NormFloat64()/3))
		bin := 1 + int(math.Floor(math.Log2(rtt.Seconds())*32)) - report.FirstPower
		one := report.Histogram{Count: 1, Min: rtt, Max: rtt, Sum: rtt, Bins: make([]uint64, bin+1)}
		one.Bins[bin] = 1
		h.Add(&one)
	}
	return h
}

// traffic returns an interval of 20 minutes with prefixes of several kinds: some with parts, one that only answers
// queries, one that is not always there, and one without RTTs.
func traffic(start time.Time) *report.Interval {
	r := rand.New(rand.NewPCG(uint64(start.Unix()), 1))
	slow := 30 * time.Millisecond
	if start.Sub(began) > 5*24*time.Hour {
		slow = 90 * time.Millisecond
	}
	bytes := report.PrefixTraffic{
		TCPPlain: report.Traffic{Packets: 3, Bytes: 1000}, Retransmissions: 2, ECNCapable: 9, ECNMarked: 1,
	}
	i := &report.Interval{Start: start, End: start.Add(20 * time.Minute), Aggregation: new(report.Aggregation)}
	loaded := someRTTs(r, 5, 2*slow)
	own := someRTTs(r, 20, slow)
	own.Add(&loaded)
	i.Prefixes = []report.Prefix{
		{Group: "customer", RTT: own, ByLoad: report.Load{Loaded: loaded}, PeerRTT: someRTTs(r, 7, slow/3), Sent: bytes,
			LossSent: report.Loss{All: 64, Passed: 63, Reported: 2}},
		{Prefix: netip.MustParsePrefix("192.0.2.0/24"), RTT: someRTTs(r, 30, 5*time.Millisecond), Received: bytes},
		{Group: "resolver", Queries: someRTTs(r, 9, 40*time.Millisecond), Received: bytes},
		{Group: "silent", Received: bytes},
	}
	if r.IntN(3) > 0 {
		i.Prefixes = append(i.Prefixes, report.Prefix{
			Group: "seldom", VLAN: report.VLAN{ID: 7}, RTT: someRTTs(r, 3, time.Second),
		})
	}
	return i
}

// write writes an interval of every other hour.
func write(t *testing.T, w *Writer, from time.Time, d time.Duration) {
	t.Helper()
	for at := from; at.Before(from.Add(d)); at = at.Add(2 * time.Hour) {
		require.NoError(t, w.Interval(traffic(at)))
	}
}

// writeRows writes a file with the rows of intervals, whose starts have a distance.
func writeRows(
	t *testing.T, dir string, from time.Time, d, every time.Duration, make func(time.Time) *report.Interval,
) {
	t.Helper()
	var rows []Row
	for at := from; at.Before(from.Add(d)); at = at.Add(every) {
		i := make(at)
		for n := range i.Prefixes {
			rows = append(rows, newRow(i, &i.Prefixes[n]))
		}
	}
	require.NoError(t, writeFile(newFile(dir, from, false).path, rows))
}

// settle waits until the days are joined that are due, and closes the writer.
func settle(t *testing.T, w *Writer) {
	t.Helper()
	w.write()
	list, err := files(w.dir)
	require.NoError(t, err)
	for range 2 {
		w.keeper.joins.Wait()
		require.NoError(t, w.keeper.keep(list[len(list)-1].end()))
	}
	w.keeper.joins.Wait()
	require.NoError(t, w.Close())
}

// perDay is how many files fewDays has of a day.
const perDay = 48

// fewDays is a history of three days, which is made once.
var fewDays = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "history"); err != nil {
		return "", err
	}
	madeDays = dir
	w, err := NewWriter(dir, Limits{Size: plenty}, slog.Default())
	for at := firstDay; err == nil && at.Before(firstDay.Add(3*oneDay)); at = at.Add(oneDay / perDay) {
		i := traffic(at)
		i.End = at.Add(oneDay / perDay)
		err = w.Interval(i)
	}
	return dir, errors.Join(err, w.Close())
})

var madeDays string // the folder of fewDays, if a test asked for it

func TestMain(m *testing.M) {
	code := m.Run()
	if madeDays != "" {
		_ = os.RemoveAll(madeDays)
	}
	os.Exit(code)
}

var firstDay = began.Truncate(oneDay)

// fineHistory returns a copy of a history of three days, of which none is joined.
func fineHistory(t *testing.T) (dir string) {
	t.Helper()
	from, err := fewDays()
	require.NoError(t, err)
	list, err := files(from)
	require.NoError(t, err)
	require.Len(t, list, 3*perDay)
	dir = t.TempDir()
	copyFiles(t, from, dir, list)
	return dir
}

// joinedHistory returns a history of the same days, of which the first two are joined.
func joinedHistory(t *testing.T) (dir string) {
	t.Helper()
	dir = fineHistory(t)
	settle(t, newLimitedWriter(t, dir, Limits{Size: plenty, Hourly: oneDay - time.Hour}))
	require.Equal(t, 2, countHourly(t, dir))
	return dir
}

func countHourly(t *testing.T, dir string) (n int) {
	list, err := files(dir)
	require.NoError(t, err)
	for _, f := range list {
		if f.hourly {
			n++
		}
	}
	return n
}

func everything() Query { return Query{To: began.AddDate(1, 0, 0)} }

// Rows that are joined tell the same: percentiles and sums of each prefix.
func TestJoinedRowsTellTheSame(t *testing.T) {
	fine, both := t.TempDir(), t.TempDir()
	for day := range time.Duration(10) {
		writeRows(t, fine, firstDay.Add(day*oneDay), oneDay, 20*time.Minute, traffic)
	}
	list, err := files(fine)
	require.NoError(t, err)
	copyFiles(t, fine, both, list)
	settle(t, newLimitedWriter(t, both, Limits{Size: plenty, Hourly: 7 * oneDay}))
	require.Equal(t, 2, countHourly(t, both))

	totals, err := Total(fine, everything())
	require.NoError(t, err)
	totalsOfBoth, err := Total(both, everything())
	require.NoError(t, err)
	require.ElementsMatch(t, totals.Prefixes, totalsOfBoth.Prefixes)
	require.Less(t, len(always(t, both)), len(always(t, fine)))
}

// A joined row has the columns of its histogram, and the times of what it is made of.
func TestColumnsOfJoinedRows(t *testing.T) {
	rows := read(t, joinedHistory(t), firstDay, firstDay.Add(time.Hour))
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Label()
		h := r.Histogram()
		require.EqualValues(t, h.Count, r.RTTs)
		if h.Count > 0 {
			require.EqualValues(t, h.Quantile(0.5), r.Median)
			require.EqualValues(t, h.Quantile(0.95), r.P95)
		}
		for _, p := range r.Parts {
			h := p.Histogram(&r)
			require.EqualValues(t, h.Quantile(0.95), p.P95)
		}
	}
	require.Equal(t, []string{"192.0.2.0/24", "customer", "resolver", "seldom vlan 7", "silent"}, names)
	require.Equal(t, time.Hour, rows[0].End.Sub(rows[0].Start))
	require.EqualValues(t, 60, rows[0].RTTs)
	require.EqualValues(t, 2*64, rows[1].QUICSent)
}

// Each counter that a row has is added.
func TestAllCountersAreAdded(t *testing.T) {
	var r Row
	of := reflect.ValueOf(&r).Elem()
	counters := 0
	for i := range of.NumField() {
		if f := of.Field(i); f.Kind() == reflect.Uint64 && of.Type().Field(i).Name != "RTTs" {
			f.SetUint(uint64(i + 1))
			counters++
		}
	}
	require.Greater(t, counters, 10)
	sum := r
	sum.addCounters(&r)
	for i := range of.NumField() {
		if f := of.Field(i); f.Kind() == reflect.Uint64 {
			require.Equal(t, 2*f.Uint(), reflect.ValueOf(sum).Field(i).Uint(), of.Type().Field(i).Name)
		}
	}
}

// All that tells aggregates apart tells rows apart that are joined.
func TestKeyHasAllNames(t *testing.T) {
	of := reflect.TypeFor[Row]()
	names := 0
	for i := range of.NumField() {
		var r Row
		switch f := reflect.ValueOf(&r).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Uint16:
			f.SetUint(1)
		default:
			continue
		}
		names++
		require.NotEqual(t, keyOf(new(Row)), keyOf(&r), of.Field(i).Name)
		require.NotZero(t, keyOf(new(Row)).compare(keyOf(&r)), of.Field(i).Name)
	}
	require.Greater(t, names, 5)
}

// manyPrefixes writes an hour of a day that is over.
func manyPrefixes(t *testing.T, dir string, prefixes int) *Writer {
	w := newTestWriter(t, dir, plenty)
	for minute := range 60 {
		i := traffic(began.Add(time.Duration(minute) * time.Minute))
		i.End = i.Start.Add(time.Minute)
		for n := range prefixes {
			p := i.Prefixes[0]
			p.Group = fmt.Sprint("customer ", n)
			i.Prefixes = append(i.Prefixes, p)
		}
		i.Prefixes = i.Prefixes[1:]
		require.NoError(t, w.Interval(i))
	}
	w.write()
	return w
}

// Prefixes that have no room at a time are joined one after the other: the result is the same, and each has one row.
func TestJoinWithLittleRoom(t *testing.T) {
	var results [][]Row
	for _, room := range []int{maxJoined, 20_000, 1} {
		dir := t.TempDir()
		w := manyPrefixes(t, dir, 20)
		w.keeper.room = room
		require.NoError(t, w.keeper.join(firstDay))
		require.NoError(t, w.Close())
		rows := always(t, dir)
		slices.SortFunc(rows, func(a, b Row) int { return keyOf(&a).compare(keyOf(&b)) })
		results = append(results, rows)
	}
	require.Len(t, results[0], 24)
	require.Equal(t, results[0], results[1])
	require.Equal(t, results[0], results[2])
}

// What is joined has room, or is a single prefix.
func TestRoomOfSums(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, manyPrefixes(t, dir, 40).Close())
	d, err := lookAt(dir, firstDay)
	require.NoError(t, err)
	defer d.close()
	for _, room := range []int{30_000, 1} {
		j := newJoiner(t.Context(), d, parquet.NewGenericWriter[Row](io.Discard), room)
		high, err := j.pass(began, 0)
		require.NoError(t, err)
		require.Less(t, high, uint64(math.MaxUint64))
		require.True(t, j.size <= room || len(j.sums) <= 1, "%d bytes in %d sums", j.size, len(j.sums))
		size := 0
		for _, sum := range j.sums {
			size += sum.size()
		}
		require.Equal(t, size, j.size)
		j.in.close()
	}
}

// counts returns how many RTTs a history has of each prefix.
func counts(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	sums := make(map[string]uint64)
	require.NoError(t, Read(dir, time.Time{}, began.AddDate(1, 0, 0), func(r *Row) error {
		sums[r.Label()] += r.RTTs
		return nil
	}))
	return sums
}

// copyFiles copies files of a history.
func copyFiles(t *testing.T, from, to string, list []file) {
	t.Helper()
	for _, f := range list {
		content, err := os.ReadFile(filepath.Join(from, f.name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, f.name()), content, 0o600))
	}
}

// TestCrashBetweenSteps has what a process leaves that is killed before or after the commit point: the history tells
// the same at once, and what is left over is removed at the next start.
func TestCrashBetweenSteps(t *testing.T) {
	fine, dir := fineHistory(t), joinedHistory(t)
	want := counts(t, fine)
	kept, err := files(dir)
	require.NoError(t, err)
	day := firstDay
	old, err := filesOf(fine, day)
	require.NoError(t, err)
	require.Len(t, old, perDay)
	for name, left := range map[string][]file{
		"all": old, "some": old[20:40], "the first": old[:1], "the last": old[perDay-1:],
	} {
		copyFiles(t, fine, dir, left)
		part := kept[0].path + unfinished
		require.NoError(t, os.WriteFile(part, []byte("PAR1"), 0o600))
		require.Equal(t, want, counts(t, dir), name)
		w := newLimitedWriter(t, dir, Limits{Size: plenty, Hourly: oneDay})
		require.NoFileExists(t, part)
		again, err := files(dir)
		require.NoError(t, err)
		require.Equal(t, kept, again, name)
		require.NoError(t, w.Close())
		require.Equal(t, want, counts(t, dir), name)
	}
}

// TestKilled kills processes that join days, at any time.
func TestKilled(t *testing.T) {
	const variable = "SLUICE_TEST_JOIN"
	if dir := os.Getenv(variable); dir != "" {
		w := newLimitedWriter(t, dir, Limits{Size: plenty, Hourly: time.Hour})
		fmt.Println("begins")
		settle(t, w)
		return
	}
	fine := fineHistory(t)
	want := counts(t, fine)
	list, err := files(fine)
	require.NoError(t, err)
	dir := t.TempDir()
	copyFiles(t, fine, dir, list)
	rounds := 4
	if thorough.Set() {
		rounds = 8
	}
	for i := range rounds {
		n := i * 8 / rounds
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), variable+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 1))
		require.NoError(t, err)
		time.Sleep(time.Duration(20*n) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		require.Equal(t, want, counts(t, dir), "killed after %d ms", 20*n)
	}
	settle(t, newLimitedWriter(t, dir, Limits{Size: plenty, Hourly: time.Hour}))
	require.Equal(t, want, counts(t, dir))
	require.Equal(t, 2, countHourly(t, dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2+perDay, "no file is left over")
}

// Those who read while days are joined see each day once.
func TestReadWhileJoining(t *testing.T) {
	dir := fineHistory(t)
	want := counts(t, dir)
	w := newLimitedWriter(t, dir, Limits{Size: plenty, Hourly: time.Hour})
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		w.keeper.joins.Wait()
	}()
	for reading := true; reading; {
		select {
		case <-joined:
			reading = false
		default:
		}
		require.Equal(t, want, counts(t, dir))
	}
	require.NoError(t, w.Close())
	require.Equal(t, 2, countHourly(t, dir))
}

// A day that is joined again has its rows once, too, for those who read meanwhile.
func TestReadWhileJoiningAgain(t *testing.T) {
	dir := t.TempDir()
	writeRows(t, dir, firstDay, time.Hour, 20*time.Minute, traffic)
	want := counts(t, dir)["customer"]
	w := newTestWriter(t, dir, plenty)
	require.NoError(t, w.keeper.join(firstDay))
	var low, high atomic.Uint64 // how many late RTTs there are, at least and at most
	done := make(chan error, 1)
	go func() {
		for n := range 60 {
			at := firstDay.Add(time.Hour + time.Duration(n)*time.Second)
			i := intervalAt(at, "192.0.2.0/24", time.Millisecond, 1)
			i.Prefixes[0] = report.Prefix{Group: "late", RTT: i.Prefixes[0].RTT}
			path := newFile(dir, at, false).path
			high.Add(1)
			err := errors.Join(writeFile(path+unfinished, []Row{newRow(i, &i.Prefixes[0])}), putInPlace(path))
			low.Add(1)
			if err := errors.Join(err, w.keeper.join(firstDay)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reading := true; reading; {
		select {
		case err := <-done:
			require.NoError(t, err)
			reading = false
		default:
		}
		least := low.Load()
		got := counts(t, dir)
		require.GreaterOrEqual(t, got["late"], least)
		require.LessOrEqual(t, got["late"], high.Load())
		require.Equal(t, want, got["customer"])
	}
	require.EqualValues(t, 60, counts(t, dir)["late"])
	require.NoError(t, w.Close())
}

// A file of hours that is open replaces what it names itself, not what a newer one of the same name does.
func TestReplacedByOpenFile(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	writeRows(t, dir, firstDay, time.Hour, 20*time.Minute, traffic)
	require.NoError(t, w.keeper.join(firstDay))
	writeRows(t, dir, firstDay.Add(time.Hour), time.Hour, 20*time.Minute, traffic)
	list, err := filesOf(dir, firstDay)
	require.NoError(t, err)
	require.Len(t, list, 2)
	d := new(openDay)
	defer func() { d.close() }()
	for _, f := range list {
		o, err := open(f)
		require.NoError(t, err)
		d.files = append(d.files, o)
	}
	require.NoError(t, w.keeper.join(firstDay))
	require.NoError(t, d.leaveReplacedOut())
	require.Len(t, d.files, 2)
	require.Empty(t, d.replaced)
	require.NoError(t, w.Close())
}

// If a history is replaced between looking and opening, the reader looks again.
func TestLookAgain(t *testing.T) {
	fine, dir := fineHistory(t), joinedHistory(t)
	list, err := filesOf(fine, firstDay)
	require.NoError(t, err)
	for i := range list {
		list[i].path = filepath.Join(dir, list[i].name())
	}
	_, err = openAll(list)
	require.ErrorIs(t, err, os.ErrNotExist)
	d, err := lookAt(dir, firstDay)
	require.NoError(t, err)
	defer d.close()
	require.Len(t, d.files, 1)
	require.True(t, d.files[0].hourly)
}

// Rows may come late, of a day that is joined already: from a capture, or because the clock was set back.
func TestLateRows(t *testing.T) {
	dir := joinedHistory(t)
	want := counts(t, dir)
	w := newLimitedWriter(t, dir, Limits{Size: plenty, Hourly: oneDay})
	late := intervalAt(began.Add(time.Second), "198.51.100.0/24", 4*time.Millisecond, 5)
	late.Prefixes[0].RTT = someRTTs(rand.New(rand.NewPCG(1, 1)), 5, time.Millisecond)
	require.NoError(t, w.Interval(late))
	w.write()
	want["198.51.100.0/24"] = 5
	require.Equal(t, want, counts(t, dir))
	settle(t, w)
	require.Equal(t, 2, countHourly(t, dir))
	require.Equal(t, want, counts(t, dir))
	list, err := filesOf(dir, firstDay)
	require.NoError(t, err)
	require.Len(t, list, 1, "the late rows are joined, too")
}

// A day that is damaged stays as it is, and the others are joined.
func TestJoinOfDamagedDay(t *testing.T) {
	dir := fineHistory(t)
	list, err := files(dir)
	require.NoError(t, err)
	whole, err := os.ReadFile(list[10].path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list[10].path, whole[:len(whole)/2], 0o600))
	var log bytes.Buffer
	w, err := NewWriter(dir, Limits{Size: plenty, Hourly: time.Hour}, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	w.keeper.joins.Wait()
	require.Contains(t, log.String(), "rows of the history are not joined")
	require.Contains(t, log.String(), list[10].name())
	require.Equal(t, 1, countHourly(t, dir))
	day, err := filesOf(dir, list[0].day())
	require.NoError(t, err)
	require.Len(t, day, perDay)
	left, err := w.keeper.unfinished()
	require.NoError(t, err)
	require.Empty(t, left)
	before := log.Len()
	require.NoError(t, w.keeper.keep(list[len(list)-1].start))
	w.keeper.joins.Wait()
	require.Equal(t, before, log.Len(), "it is not tried again at once")
	require.NoError(t, os.WriteFile(list[10].path, whole, 0o600))
	for range 2 {
		require.NoError(t, w.keeper.keep(list[len(list)-1].start.Add(time.Hour)))
		w.keeper.joins.Wait()
	}
	require.Equal(t, 2, countHourly(t, dir), "it is tried again, and whole")
	require.Empty(t, w.keeper.failed)
	require.NoError(t, w.Close())
}

// What is joined when the writer is closed stays as it was.
func TestCloseWhileJoining(t *testing.T) {
	dir := fineHistory(t)
	want := counts(t, dir)
	w := newLimitedWriter(t, dir, Limits{Size: plenty})
	d, err := lookAt(dir, firstDay)
	require.NoError(t, err)
	defer d.close()
	w.keeper.cancel()
	require.ErrorIs(t, w.keeper.join(firstDay), context.Canceled)
	in := rowStream{files: d.files}
	require.ErrorIs(t, in.seek(w.keeper.ctx, place{row: 3}), context.Canceled)
	in.close()
	w.keeper.limits.Hourly = time.Hour
	require.NoError(t, w.keeper.joinDue(firstDay.Add(3*oneDay)), "no day is begun")
	require.NoError(t, w.Close())
	require.Equal(t, want, counts(t, dir))
	require.Zero(t, countHourly(t, dir))
	left, err := w.keeper.unfinished()
	require.NoError(t, err)
	require.Empty(t, left)
}

// What is older than the limit is removed: files of minutes one by one, and those of hours when the day is over.
func TestAge(t *testing.T) {
	dir := joinedHistory(t)
	w := newLimitedWriter(t, dir, Limits{Size: plenty, Age: 2 * oneDay, Hourly: oneDay})
	write(t, w, firstDay.Add(3*oneDay), oneDay/2)
	settle(t, w)
	require.Equal(t, firstDay.Add(oneDay), always(t, dir)[0].Start)

	w = newLimitedWriter(t, dir, Limits{Size: plenty, Age: oneDay})
	require.NoError(t, w.Close())
	require.Equal(t, firstDay.Add(2*oneDay+oneDay/2-2*time.Hour), always(t, dir)[0].Start)
}

// A clock that is wrong for an interval removes nothing, and joins nothing: also if what it wrote is the newest file.
func TestWrongClock(t *testing.T) {
	dir := fineHistory(t)
	want := counts(t, dir)
	limits := Limits{Size: plenty, Age: 4 * oneDay, Hourly: 3 * oneDay}
	w := newLimitedWriter(t, dir, limits)
	now := firstDay.Add(3 * oneDay)
	for _, at := range []time.Time{now, now.AddDate(100, 0, 0), now.Add(time.Hour)} {
		require.NoError(t, w.Interval(intervalAt(at, "198.51.100.0/24", 4*time.Millisecond, 1)))
		w.write()
		w.keeper.joins.Wait()
	}
	require.NoError(t, w.Close())
	want["198.51.100.0/24"] = 3
	sums := func() map[string]uint64 {
		sums := make(map[string]uint64)
		require.NoError(t, Read(dir, time.Time{}, now.AddDate(200, 0, 0), func(r *Row) error {
			sums[r.Label()] += r.RTTs
			return nil
		}))
		return sums
	}
	require.Equal(t, want, sums())
	require.Zero(t, countHourly(t, dir))

	limits.Age = time.Since(firstDay) + 4*oneDay
	limits.Hourly = limits.Age
	require.NoError(t, newLimitedWriter(t, dir, limits).Close())
	require.Equal(t, want, sums())
	require.Zero(t, countHourly(t, dir))
}

// sizeOf returns how many bytes all files in a folder have.
func sizeOf(t *testing.T, dir string) (sum int64) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		sum += info.Size()
	}
	return sum
}

// If what is finer than hours takes half of the size, it is joined before its time. So a small disk has more days. All
// files together never take more than the limit.
func TestSizeOfJoinedHistory(t *testing.T) {
	one := t.TempDir()
	w := newTestWriter(t, one, plenty)
	write(t, w, firstDay, oneDay)
	require.NoError(t, w.Close())
	limit := 3 * sizeOf(t, one)

	const week = 7 * oneDay
	days := make(map[time.Duration]int)
	for _, hourly := range []time.Duration{0, week} {
		dir := t.TempDir()
		w := newLimitedWriter(t, dir, Limits{Size: limit, Hourly: hourly})
		for day := range 9 {
			write(t, w, firstDay.Add(time.Duration(day)*oneDay), oneDay)
			w.keeper.joins.Wait()
			require.LessOrEqual(t, sizeOf(t, dir), limit)
		}
		settle(t, w)
		require.LessOrEqual(t, sizeOf(t, dir), limit)
		first := always(t, dir)[0].Start
		days[hourly] = int(firstDay.Add(9*oneDay).Sub(first) / oneDay)
	}
	require.LessOrEqual(t, days[0], 3)
	require.Equal(t, 9, days[week])
}

// FuzzName: the name of a file tells what newFile was told.
func FuzzName(f *testing.F) {
	f.Add(newFile("", began, false).name())
	f.Add(newFile("", began, true).name())
	f.Add("notes.parquet")
	f.Add("20260701T120000.000000Z.hours.hours.parquet")
	f.Fuzz(func(t *testing.T, name string) {
		if parsed, ok := parseName(name); ok {
			require.Equal(t, filepath.Base(name), newFile("", parsed.start, parsed.hourly).name())
		}
	})
}

// Parts that prefixes have without RTTs are told apart: resolvers that answer queries, and nothing else.
func TestQueriesAlone(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, plenty)
	for minute := range 30 {
		i := intervalAt(began.Add(time.Duration(minute)*time.Minute), "192.0.2.0/24", 10*time.Millisecond, 1)
		h := i.Prefixes[0].RTT
		i.Prefixes = append(i.Prefixes, report.Prefix{Group: "resolver", Queries: h}, report.Prefix{Group: "few"})
		if minute < minRTTs-1 {
			i.Prefixes[2].Queries = h
		}
		require.NoError(t, w.Interval(i))
	}
	require.NoError(t, w.Close())

	totals, err := Total(dir, everything())
	require.NoError(t, err)
	names := make(map[string]bool)
	for _, p := range totals.Prefixes {
		names[p.Prefix] = true
	}
	require.Equal(t, []string{"192.0.2.0/24", "resolver"}, slices.Sorted(maps.Keys(names)))

	_, err = Total(dir, Query{To: began.AddDate(1, 0, 0), Prefix: "nobody"})
	require.True(t, errors.Is(err, ErrNoPrefix))
}
