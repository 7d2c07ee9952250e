package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestForwarder replays with the fast path on a path that carries everything: the forwarder sends nearly all of it, and
// every object arrives.
func TestForwarder(t *testing.T) {
	t.Parallel()
	subject := named(t, "bytes", "cubic")
	subject.FastPath = true
	s, err := newSimulation(Mock(10*time.Second).On(profile(t, "wide"), 1), subject, 1)
	require.NoError(t, err)
	require.NoError(t, s.run())
	require.Greater(t, s.fastPath.sent, 20*s.fastPath.declined)
	for i, at := range s.receiver.arrivedAt {
		require.NotZero(t, at, i)
	}
}

// TestForwarderDecides compares what viewers see with the fast path and without it. On one path the difference may be
// ten percentage points either way: a layer that ends is missing until the next group. On many it is small, because
// both senders ask the same rule about the same.
func TestForwarderDecides(t *testing.T) {
	t.Parallel()
	subject := named(t, "bytes", "cubic")
	playable, largest, n := make(map[bool]float64), 0., 0.
	for _, name := range []string{"step", "sawtooth", "lte"} {
		for seed := range uint64(12) {
			tr := Mock(24*time.Second).On(profile(t, name), seed)
			one := make(map[bool]float64)
			for _, subject.FastPath = range []bool{false, true} {
				o := replayed(t, tr, subject, seed)
				one[subject.FastPath] = 100 * o.Playable
				playable[subject.FastPath] += 100 * o.Playable
			}
			largest, n = max(largest, one[true]-one[false], one[false]-one[true]), n+1
		}
	}
	t.Logf("playable: %.1f %% without the fast path, %.1f %% with it; on one path they differ by up to %.1f",
		playable[false]/n, playable[true]/n, largest)
	require.InDelta(t, playable[false]/n, playable[true]/n, 3)
}
