package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
)

// TestReclaimerRests has nothing to free, then something.
func TestReclaimerRests(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	reclaimer := r.fast.reclaimer
	soon := func(what func() bool, message string) {
		t.Helper()
		require.Eventually(t, what, 20*time.Second, time.Millisecond, message)
	}
	soon(reclaimer.rests.Load, "it rests")
	var slot uint32
	require.NoError(t, r.ingress.FreeStreams.LookupAndDelete(nil, &slot))
	c := r.connection(0)
	c.mu.Lock() // it needs the lock when it looks
	reclaimer.freeSlot(slot)
	soon(func() bool { return !reclaimer.rests.Load() }, "it is going to look")
	c.mu.Unlock()
	soon(func() bool { return !reclaimer.waits() }, "the slot is freed")
	soon(reclaimer.rests.Load, "it rests again")
}
