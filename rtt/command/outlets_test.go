package command

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/rtt/output"
	"sluice/rtt/queue"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// TestMeasuringDoesNotWait: an outlet that writes files or sends intervals has a queue. A replay waits for its file.
func TestMeasuringDoesNotWait(t *testing.T) {
	open := func(f *rttFlags) *outlets {
		f.format = "standard"
		o, err := f.open(t.Context(), &cli.Environment{Stdout: t.Output(), Getenv: func(string) string { return "" }})
		require.NoError(t, err)
		return o
	}
	o := open(&rttFlags{
		aggregate: 60, history: t.TempDir(), historySize: 1 << 20, otlpURL: "http://[::1]:1", ipfix: "127.0.0.1:4739",
	})
	require.Len(t, o.Tee, 4)
	for _, to := range o.Tee {
		require.IsType(t, new(queue.Queue), to)
	}
	require.NoError(t, o.close())

	for _, test := range []struct {
		flags *rttFlags
		want  report.Sink
	}{{new(rttFlags), new(queue.Events)}, {&rttFlags{pcap: "trace.pcap"}, new(output.Writer)}} {
		o := open(test.flags)
		require.Len(t, o.Tee, 1)
		require.IsType(t, test.want, o.Tee[0])
		require.NoError(t, o.close())
	}
}

// TestRotatedIntervals moves the file of aggregates, as logrotate does: the next interval is for the new one.
func TestRotatedIntervals(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.jsonl")
	out, err := output.New(output.JSONL, func() (io.WriteCloser, error) {
		return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	})
	require.NoError(t, err)
	w, lines := flushing{out}, func(name string) int {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return strings.Count(string(text), "\n")
	}
	require.NoError(t, w.Interval(reporttest.Interval()))
	once := lines(name)
	require.NotZero(t, once)
	require.NoError(t, os.Rename(name, name+".1"))
	w.Reopen()
	require.NoError(t, w.Interval(reporttest.Interval()))
	require.Equal(t, once, lines(name+".1"))
	require.Equal(t, once, lines(name))
	require.NoError(t, w.Close())
}
