package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/internal/rtt/queue"
)

// TestMeasuringDoesNotWait: what writes files or sends intervals has a queue.
func TestMeasuringDoesNotWait(t *testing.T) {
	f := &rttFlags{
		format: "standard", history: t.TempDir(), historySize: 1 << 20, otlpURL: "http://[::1]:1",
		ipfix: "127.0.0.1:4739",
	}
	o, err := f.open(t.Context(), &cli.Environment{Stdout: t.Output(), Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	require.Len(t, o.Tee, 4)
	for _, to := range o.Tee[1:] { // the first one is standard output
		require.IsType(t, new(queue.Queue), to)
	}
	require.NoError(t, o.close())
}
