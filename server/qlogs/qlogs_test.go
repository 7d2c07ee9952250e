package qlogs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	http3 "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	moqtqlog "sluice/moqt/qlog"
)

// filler is an event of about a kilobyte.
var filler = qlog.DebugEvent{EventName: "filler", Message: strings.Repeat("x", 1000)}

func open(t *testing.T, cfg Config) *Directory {
	t.Helper()
	cfg.Path = t.TempDir()
	d, err := Open(cfg)
	require.NoError(t, err)
	return d
}

// begin begins the qlog of a connection, as quic-go does.
func begin(d *Directory, n byte) (qlogwriter.Trace, qlogwriter.Recorder) {
	t := d.Trace(context.Background(), false, quic.ConnectionIDFromBytes([]byte{n, 2, 3, 4}))
	if t == nil {
		return nil, nil
	}
	return t, t.AddProducer()
}

// total returns how many files there are, and how large they are.
func (d *Directory) total(t *testing.T) (names []string, bytes int64) {
	entries, err := os.ReadDir(d.cfg.Path)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		names, bytes = append(names, e.Name()), bytes+info.Size()
	}
	return names, bytes
}

// TestDirectoryIsBounded writes ten times what the directory may have, on several connections. The latest events are
// kept, and files of others.
func TestDirectoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{Size: 4 * minPart, Sessions: 2})
		require.NoError(t, os.WriteFile(filepath.Join(d.cfg.Path, "0-notes.txt"), nil, 0o600))
		_, a := begin(d, 1)
		_, b := begin(d, 2)
		most := int64(0)
		for i := range 20 * 1024 {
			a.RecordEvent(filler)
			b.RecordEvent(filler)
			if i%100 == 0 {
				synctest.Wait() // it is written
				time.Sleep(time.Millisecond)
				_, n := d.total(t)
				most = max(most, n)
			}
		}
		a.RecordEvent(qlog.DebugEvent{EventName: "last"})
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		synctest.Wait()
		require.LessOrEqual(t, most, d.cfg.Size)
		require.Greater(t, most, d.cfg.Size/2)
		names, _ := d.total(t)
		require.Equal(t, "0-notes.txt", names[0])
		last := ""
		for _, name := range names[1:] {
			text, err := os.ReadFile(filepath.Join(d.cfg.Path, name))
			require.NoError(t, err)
			require.Contains(t, string(text[:200]), "file_schema")
			if strings.Contains(name, "_01020304_server") {
				last = string(text)
			}
		}
		require.Contains(t, last, "last")
		require.Empty(t, d.open)
	})
}

// TestFilesAreFew removes the oldest files, however small they are.
func TestFilesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{})
		for n := range maxFiles + 10 {
			name := filepath.Join(d.cfg.Path, fmt.Sprintf("%05d_00_server.sqlog", n))
			require.NoError(t, os.WriteFile(name, nil, 0o600))
		}
		_, r := begin(d, 1)
		r.RecordEvent(filler)
		require.NoError(t, r.Close())
		synctest.Wait()
		names, _ := d.total(t)
		require.Len(t, names, maxFiles)
		require.Equal(t, "00011_00_server.sqlog", names[0])
	})
}

// TestTwoMakeRoom has the processes of a relay make room at once, while one replaces the other: neither fails because a
// file that it is to remove is gone.
func TestTwoMakeRoom(t *testing.T) {
	d := open(t, Config{})
	other, err := Open(d.cfg)
	require.NoError(t, err)
	for i := range maxFiles + 200 {
		name := fmt.Sprintf("20260101-000000.%06d_x%s", i, suffix)
		require.NoError(t, os.WriteFile(filepath.Join(d.cfg.Path, name), nil, 0o600))
	}
	failed := make(chan error, 1)
	go func() { failed <- other.makeRoom() }()
	require.NoError(t, d.makeRoom())
	require.NoError(t, <-failed)
	names, _ := d.total(t)
	require.Less(t, len(names), maxFiles)
}

// TestSessionsAreLimited gives no more connections a qlog, until one has ended.
func TestSessionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{Sessions: 1})
		_, first := begin(d, 1)
		none, _ := begin(d, 2)
		require.Nil(t, none)
		require.NoError(t, first.Close())
		synctest.Wait()
		trace, second := begin(d, 3)
		require.NotNil(t, trace)
		require.NoError(t, trace.AddProducer().Close()) // it is another's: the qlog goes on
		second.RecordEvent(filler)
		require.NoError(t, second.Close())
		synctest.Wait()
		names, _ := d.total(t)
		require.Len(t, names, 1) // the first has had no events
	})
}

// TestShare gives the same share of connections a qlog, whichever relay looks at them.
func TestShare(t *testing.T) {
	for share, want := range map[float64]int{0: 1000, 1e-9: 0, 0.01: 10, 0.1: 116, 1: 1000} {
		m, n := Match{Share: share}, 0
		for i := range 1000 {
			if m.share(quic.ConnectionIDFromBytes([]byte{byte(i >> 8), byte(i), 3, 4, 5, 6, 7, 8})) {
				n++
			}
		}
		require.Equal(t, want, n, share)
	}
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{Match: Match{Share: 1e-9}})
		_, none := begin(d, 1)
		require.Nil(t, none)
		d.SetMatch(Match{Share: 1})
		_, r := begin(d, 1)
		require.NoError(t, r.Close())
	})
}

// TestPaths gives connections a qlog, with all that was before, as soon as their path is known and wanted. Others, and
// those whose path is never known, leave their place.
func TestPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		setup := func(path *string) moqt.Message { return &moqt.Setup{Path: path} }
		request := func(path string) qlogwriter.Event {
			return http3.FrameParsed{Frame: http3.Frame{Frame: http3.HeadersFrame{
				HeaderFields: []http3.HeaderField{{Name: ":path", Value: path}},
			}}}
		}
		for _, c := range []struct {
			tell func(qlogwriter.Recorder, *moqtqlog.Recorder)
			kept bool
		}{
			{func(r qlogwriter.Recorder, _ *moqtqlog.Recorder) { r.RecordEvent(request("/live?token=a")) }, true},
			{func(r qlogwriter.Recorder, _ *moqtqlog.Recorder) { r.RecordEvent(request("/live/1")) }, true},
			{func(r qlogwriter.Recorder, _ *moqtqlog.Recorder) { r.RecordEvent(request("/lively")) }, false},
			{func(_ qlogwriter.Recorder, m *moqtqlog.Recorder) {
				m.Message(moqtqlog.Parsed, 2, 0, setup(new("/live")))
			},
				true},
			{func(_ qlogwriter.Recorder, m *moqtqlog.Recorder) { // its own is no client's
				m.Message(moqtqlog.Created, 3, 0, setup(nil))
				m.Message(moqtqlog.Parsed, 2, 0, setup(new("/live?a")))
			}, true},
			{func(_ qlogwriter.Recorder, m *moqtqlog.Recorder) { m.Message(moqtqlog.Parsed, 2, 0, setup(nil)) }, false},
			{func(qlogwriter.Recorder, *moqtqlog.Recorder) {}, false},
		} {
			d := open(t, Config{Match: Match{Paths: []string{"/live"}}})
			trace, r := begin(d, 1)
			r.RecordEvent(qlog.DebugEvent{EventName: "first"})
			synctest.Wait()
			names, _ := d.total(t)
			require.Empty(t, names)
			c.tell(r, moqtqlog.New(trace))
			synctest.Wait()
			r.RecordEvent(qlog.DebugEvent{EventName: "last"})
			require.NoError(t, r.Close())
			synctest.Wait()
			require.Empty(t, d.open)
			names, _ = d.total(t)
			require.Equal(t, c.kept, len(names) == 1)
			if c.kept {
				text, err := os.ReadFile(filepath.Join(d.cfg.Path, names[0]))
				require.NoError(t, err)
				require.Regexp(t, "(?s)first.*last", string(text))
			}
		}
		// Without a path, no more waits than may wait.
		d := open(t, Config{Match: Match{Paths: []string{"/live"}}})
		_, r := begin(d, 1)
		for range 2 * maxWaiting / 1000 {
			r.RecordEvent(filler)
		}
		synctest.Wait()
		require.Empty(t, d.open)
	})
}

// TestSlowDisk records more than may wait. The qlog ends, and says so; the connection does not wait.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := open(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		trace := newTrace(d, false, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4}))
		d.open[trace] = ""
		r := trace.AddProducer()
		for range 2 * maxWaiting / 1000 {
			r.RecordEvent(filler)
		}
		trace.run() // as slow as that
		require.Contains(t, log.String(), "256 KiB wait")
		require.Empty(t, d.open)
		r.RecordEvent(filler)
		require.NoError(t, r.Close())
		require.Equal(t, 1, strings.Count(log.String(), "\n"))
	})
}

// TestDiskHangs has connections come while the disk does not answer. They wait for nothing.
func TestDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{})
		d.disk.Lock() // as while a file is made
		_, a := begin(d, 1)
		a.RecordEvent(filler)
		_, b := begin(d, 2)
		require.NoError(t, b.Close())
		require.NoError(t, a.Close())
		d.disk.Unlock()
		synctest.Wait()
		names, _ := d.total(t)
		require.Len(t, names, 1)
	})
}

// fullDisk takes a number of bytes, whatever files they are for.
type fullDisk struct{ left int }

func (d *fullDisk) newFile(name string) (file, error) {
	f, err := newFile(name)
	return fileOnFullDisk{f, d}, err
}

type fileOnFullDisk struct {
	file
	disk *fullDisk
}

func (f fileOnFullDisk) Write(b []byte) (int, error) {
	n, err := f.file.Write(b[:min(len(b), f.disk.left)])
	f.disk.left -= n
	if err == nil && n < len(b) {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestFullDisk keeps the events that the disk has taken, whole, and no file without events. The log says it once.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := open(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		d.newFile = (&fullDisk{left: 20_000}).newFile
		_, r := begin(d, 1)
		for range 50 {
			r.RecordEvent(filler)
		}
		synctest.Wait()
		require.Empty(t, d.open)
		r.RecordEvent(filler)
		require.NoError(t, r.Close())
		_, another := begin(d, 2)
		another.RecordEvent(filler)
		synctest.Wait()
		require.Empty(t, d.open)

		names, _ := d.total(t)
		require.Len(t, names, 1)
		text, err := os.ReadFile(filepath.Join(d.cfg.Path, names[0]))
		require.NoError(t, err)
		records := strings.Split(string(text), "\x1e")[1:]
		require.InDelta(t, 19, len(records), 2)
		for _, r := range records {
			require.True(t, json.Valid([]byte(r)), r)
		}
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), "no space left on device")
	})
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(Config{Path: file})
	require.ErrorContains(t, err, "not a directory")
	_, err = Open(Config{Path: t.TempDir(), Size: 1 << 20})
	require.ErrorContains(t, err, "Size: 1048576: must be at least 16777216")
	_, err = Open(Config{Path: t.TempDir(), Sessions: -1})
	require.ErrorContains(t, err, "Sessions: -1: must be at least 1")
}

// TestRedact leaves tokens out, and does not change events that others have.
func TestRedact(t *testing.T) {
	lines := NewLines(false, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4}))
	token := qlog.NewTokenFrame{Token: []byte("sesame")}
	id := qlog.NewConnectionIDFrame{SequenceNumber: 5, StatelessResetToken: [16]byte{0xab, 0xcd}}
	header := qlog.PacketHeader{PacketType: qlog.PacketTypeInitial, Token: &qlog.Token{Raw: []byte("sesame")}}
	frames := []qlog.Frame{{Frame: &token}, {Frame: &id}, {Frame: &qlog.PingFrame{}}}
	headers := http3.Frame{Frame: http3.HeadersFrame{HeaderFields: []http3.HeaderField{
		{Name: ":path", Value: "/live?sesame"}, {Name: ":method", Value: "CONNECT"},
		{Name: "authorization", Value: "Bearer sesame"}, {Name: "cookie", Value: "sesame"},
	}}}
	events := []qlogwriter.Event{
		qlog.PacketSent{Header: header, Frames: frames}, qlog.PacketReceived{Header: header, Frames: frames},
		qlog.PacketBuffered{Header: header}, qlog.PacketDropped{Header: header}, qlog.PacketLost{Header: header},
		qlog.ParametersSet{SentBy: 1, StatelessResetToken: &id.StatelessResetToken},
		http3.FrameParsed{Frame: headers}, http3.FrameCreated{Frame: headers},
	}
	for _, e := range events {
		lines.Add(redact(e))
	}
	text := lines.Text.String()
	require.NotContains(t, text, "sesame")
	require.NotContains(t, text, "736573616d65")
	require.NotContains(t, text, "abcd")
	for _, shown := range []string{"new_token", "new_connection_id", "ping", "CONNECT", `"/live"`, "authorization"} {
		require.Contains(t, text, shown)
	}
	require.Equal(t, "sesame", string(token.Token))
	require.Equal(t, "sesame", headers.Frame.(http3.HeadersFrame).HeaderFields[3].Value)
}
