package media

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpansAgainstModel(t *testing.T) {
	const size = 40
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var s spans
		var model [size]bool
		for range 30 {
			from := int64(rng.IntN(size))
			to := from + int64(rng.IntN(size-int(from)+1))
			switch rng.IntN(3) {
			case 0:
				s.add(from, to)
				for i := from; i < to; i++ {
					model[i] = true
				}
			case 1:
				s.remove(from, to)
				for i := from; i < to; i++ {
					model[i] = false
				}
			default:
				all := true
				for i := from; i < to; i++ {
					all = all && model[i]
				}
				require.Equal(t, all, s.contains(from, to))
				var missing spans
				missing.addMissing(from, to, s)
				for i := range int64(size) {
					require.Equal(t, i >= from && i < to && !model[i], i < to && from <= i && missing.contains(i, i+1))
				}
			}
			checkSpans(t, s, model[:])
		}
	}
}

func checkSpans(t *testing.T, s spans, model []bool) {
	t.Helper()
	n := 0
	for i, p := range s {
		require.Less(t, p.from, p.to)
		if i > 0 {
			require.Greater(t, p.from, s[i-1].to, "adjacent spans: %v", s)
		}
		for at := p.from; at < p.to; at++ {
			require.True(t, model[at])
			n++
		}
	}
	for _, m := range model {
		if m {
			n--
		}
	}
	require.Zero(t, n)
}
