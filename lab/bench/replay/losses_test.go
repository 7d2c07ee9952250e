package replay

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

// TestLosses plays on the path of the benchmark that loses 1 % of the packets. What makes pictures old there are key
// frames, which fill the path for as long as three pictures last, and not the losses. A relay that sends key frames
// last has younger pictures, which cannot be shown yet.
func TestLosses(t *testing.T) {
	t.Parallel()
	m := Mock(60 * time.Second)
	rate := 1.5 * m.Rate()
	clean := Change{Rate: int64(rate), Queue: int(rate / 8 * 0.05), RTT: 400 * time.Microsecond}
	lossy := clean
	lossy.Loss = .01
	keysLast := *m
	keysLast.Objects = slices.Clone(m.Objects)
	for i := range keysLast.Objects {
		o := &keysLast.Objects[i]
		o.Priority = 255 - o.Priority
	}
	play := func(name string, tr Trace, path Change, controller string) (arrival, usable float64) {
		tr.Path = []Change{path}
		s := replayed(t, &tr, named(t, "bytes", controller), 1)
		require.Equal(t, [2]float64{1, 1}, [2]float64{s.Playable, s.Keys}, name)
		age := func(q float64) float64 { return result.Quantile(s.Ages, q) }
		arrival, usable = age(.9), result.Quantile(s.Usable, .9)
		t.Logf("%s, %s: p50 %.0f ms, p90 %.0f, p99 %.0f; usable p90 %.0f",
			controller, name, age(.5), arrival, age(.99), usable)
		return arrival, usable
	}
	for _, controller := range []string{"cubic", "bbr"} {
		without, _ := play("no losses", *m, clean, controller)
		arrival, usable := play("losses", *m, lossy, controller)
		last, lastUsable := play("losses, key frames last", keysLast, lossy, controller)
		require.Less(t, arrival, without+15)
		require.Less(t, last, arrival)
		require.Greater(t, lastUsable, usable)
	}
}
