package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/internal/rtt/output"
	"sluice/internal/rtt/queue"
	"sluice/internal/rtt/report"
)

// TestMeasuringDoesNotWait: what writes files or sends intervals has a queue. A replay waits for its file.
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
