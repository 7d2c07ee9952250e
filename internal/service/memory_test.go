package service

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCollectEarly(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for chosen, want := range map[string]int{"": garbagePercent, "200": 100} {
		debug.SetGCPercent(100)
		t.Setenv("GOGC", chosen)
		CollectEarly()
		require.Equal(t, want, debug.SetGCPercent(100))
	}
}

// TestKeepSmall makes garbage, which the system gets back.
func TestKeepSmall(t *testing.T) {
	const garbage = 64 << 20
	kept := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	makeGarbage()
	require.Greater(t, kept(), uint64(garbage))
	KeepSmall()()
	require.Less(t, kept(), uint64(garbage))
}

//go:noinline
func makeGarbage() {
	b := make([]byte, 64<<20)
	for i := range b {
		b[i] = 1
	}
	runtime.KeepAlive(b)
}
