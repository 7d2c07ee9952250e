package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCollectEarly(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for chosen, want := range map[string]int{"": garbagePercent, "200": 100} {
		debug.SetGCPercent(100)
		t.Setenv("GOGC", chosen)
		collectEarly()
		require.Equal(t, want, debug.SetGCPercent(100))
	}
}
