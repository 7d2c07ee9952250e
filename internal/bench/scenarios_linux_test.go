package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What docs/bench.md and the Makefile promise.
func TestEstimate(t *testing.T) {
	estimate := func(systems []Spec, cfg Config) (int, time.Duration) {
		cfg.Systems, cfg.Clip = systems, "clip.mp4"
		s := &stage{Config: cfg.withDefaults()}
		return s.estimate(s.plans())
	}
	ours := Sluice("1")
	runs, alone := estimate(ours, Config{})
	// 1 to 200 subscribers, up to 50 with a hog, a clip, system calls, capacity; and two bottlenecks, for priority drop too.
	require.Equal(t, 3*(2*(4+3+1+1+1)+3*2), runs)
	require.Less(t, alone, 18*time.Minute)
	_, beside := estimate(append(ours, peers...), Config{})
	require.Less(t, beside, 28*time.Minute)
	_, capacity := estimate(ours, Config{Kinds: []string{KindCapacity}})
	require.Positive(t, capacity)
	require.Less(t, capacity, alone)
}
