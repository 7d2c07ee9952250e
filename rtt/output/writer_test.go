package output

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"sluice/rtt/report/reporttest"
)

//go:embed testdata/formats.txtar
var wantFormats []byte

func TestFormats(t *testing.T) {
	want := txtar.Parse(wantFormats)
	tried := make(map[string]bool)
	for i, test := range []struct {
		name   string
		format Format
		write  func(*Writer) error
	}{
		{"standard RTT", Standard, func(w *Writer) error { return w.Sample(reporttest.TCP()) }},
		{"standard DNS", Standard, func(w *Writer) error { return w.Sample(reporttest.DNS()) }},
		{"standard STUN", Standard, func(w *Writer) error { return w.Sample(reporttest.STUN()) }},
		{"standard QUIC", Standard, func(w *Writer) error { return w.Sample(reporttest.QUIC()) }},
		{"standard one direction", Standard, func(w *Writer) error { return w.Sample(reporttest.OneDirection()) }},
		{"standard opening", Standard, func(w *Writer) error { return w.Flow(reporttest.Opening()) }},
		{"standard closing", Standard, func(w *Writer) error { return w.Flow(reporttest.Closing()) }},
		{"jsonl RTT", JSONL, func(w *Writer) error { return w.Sample(reporttest.TCP()) }},
		{"jsonl DNS", JSONL, func(w *Writer) error { return w.Sample(reporttest.DNS()) }},
		{"jsonl STUN", JSONL, func(w *Writer) error { return w.Sample(reporttest.STUN()) }},
		{"jsonl QUIC", JSONL, func(w *Writer) error { return w.Sample(reporttest.QUIC()) }},
		{"jsonl one direction", JSONL, func(w *Writer) error { return w.Sample(reporttest.OneDirection()) }},
		{"jsonl flow", JSONL, func(w *Writer) error { return w.Flow(reporttest.Opening()) }},
		{"json", JSON, func(w *Writer) error {
			return errors.Join(w.Flow(reporttest.Opening()), w.Flow(reporttest.Closing()))
		}},
		{"json of nothing", JSON, func(*Writer) error { return nil }},
		{"ppviz", PPViz, func(w *Writer) error {
			return errors.Join(w.Sample(reporttest.TCP()), w.Flow(reporttest.Opening()))
		}},
		{"standard aggregate", Standard, func(w *Writer) error { return w.Interval(reporttest.Interval()) }},
		{"jsonl aggregate", JSONL, func(w *Writer) error { return w.Interval(reporttest.Interval()) }},
		{"standard logarithmic", Standard, func(w *Writer) error { return w.Interval(reporttest.Logarithmic()) }},
		{"jsonl logarithmic", JSONL, func(w *Writer) error { return w.Interval(reporttest.Logarithmic()) }},
		{"standard parts", Standard, func(w *Writer) error { return w.Interval(reporttest.Parts()) }},
		{"jsonl parts", JSONL, func(w *Writer) error { return w.Interval(reporttest.Parts()) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := New(test.format, func() (io.WriteCloser, error) { return closed{&out}, nil })
			require.NoError(t, err)
			require.NoError(t, test.write(w))
			require.NoError(t, w.Close())
			require.Equal(t, want.Files[i].Name, test.name)
			require.Equal(t, string(want.Files[i].Data), out.String())
			tried[string(test.format)] = true
			if test.format == JSON {
				require.True(t, json.Valid(out.Bytes()))
			}
		})
	}
	require.ElementsMatch(t, Formats(), slices.Collect(maps.Keys(tried)))
}

type closed struct{ io.Writer }

func (closed) Close() error { return nil }

func TestWriterRefuses(t *testing.T) {
	_, err := New("xml", nil)
	require.EqualError(t, err, `--format: "xml": must be json, jsonl, ppviz or standard`)
	_, err = New(JSON, func() (io.WriteCloser, error) { return nil, os.ErrPermission })
	require.ErrorIs(t, err, os.ErrPermission)
	w, err := New(PPViz, func() (io.WriteCloser, error) { return closed{io.Discard}, nil })
	require.NoError(t, err)
	require.EqualError(t, w.Interval(reporttest.Interval()),
		`--format with --aggregate: "ppviz": must be json, jsonl or standard`)
}

// A file that was renamed is opened again, and each file is complete.
func TestWriterReopens(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "rtt.json")
	w, err := New(JSON, func() (io.WriteCloser, error) {
		return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	})
	require.NoError(t, err)
	require.NoError(t, w.Sample(reporttest.TCP()))
	require.NoError(t, os.Rename(name, name+".1"))
	w.Reopen()
	require.NoError(t, w.Sample(reporttest.TCP()))
	require.NoError(t, w.Flush())
	require.NoError(t, w.Flow(reporttest.Opening()))
	require.NoError(t, w.Close())
	for file, records := range map[string]int{name + ".1": 2, name: 1} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var list []map[string]any
		require.NoError(t, json.Unmarshal(text, &list), "%s", text)
		require.Len(t, list, records)
	}
}

// An error is returned once.
func TestWriterFails(t *testing.T) {
	left := 1
	w, err := New(JSONL, func() (io.WriteCloser, error) {
		if left--; left < 0 {
			return nil, os.ErrPermission
		}
		return closed{io.Discard}, nil
	})
	require.NoError(t, err)
	w.Reopen()
	require.ErrorIs(t, w.Flush(), os.ErrPermission)
	require.NoError(t, w.Close())

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("needs /dev/full")
	}
	require.NoError(t, err)
	_, err = New(JSON, func() (io.WriteCloser, error) { return full, nil })
	require.ErrorContains(t, err, "no space left on device") // its array has begun
	w, err = New(JSONL, func() (io.WriteCloser, error) { return full, nil })
	require.NoError(t, err)
	require.NoError(t, w.Sample(reporttest.TCP()))
	require.ErrorContains(t, w.Flush(), "no space left on device")
	require.NoError(t, w.Close())
}

func TestAppendUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000001", 10: "0.00001", 999999: "0.999999", 1000000: "1", 1500000: "1.5", 123456789: "123.456789",
		time.Hour: "3600000",
	} {
		require.Equal(t, want, string(appendUnit(nil, d, time.Millisecond)))
	}
}
