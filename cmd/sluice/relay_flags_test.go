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
