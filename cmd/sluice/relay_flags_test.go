package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestProcessorsAreAdapted leaves the number of processors alone if somebody has chosen it.
func TestProcessorsAreAdapted(t *testing.T) {
	for chosen, want := range map[string]bool{"": true, "4": false} {
		t.Setenv("GOMAXPROCS", chosen)
		var f relayFlags
		f.register(new(cobra.Command))
		cfg, err := f.config(os.Getenv)
		require.NoError(t, err)
		require.Equal(t, want, cfg.AdaptRuntime)
	}
}

// TestNodesDial expects a node of a cluster to attach to all devices: it dials other nodes.
func TestNodesDial(t *testing.T) {
	for _, args := range [][]string{{}, {"--cluster"}, {"--cluster-url", "nats://127.0.0.1"}} {
		var f relayFlags
		cmd := new(cobra.Command)
		f.register(cmd)
		require.NoError(t, cmd.ParseFlags(args))
		cfg, err := f.config(os.Getenv)
		require.NoError(t, err)
		require.Equal(t, len(args) > 0, cfg.FastPath.Dials, args)
	}
}
