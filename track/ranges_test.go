package track

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRangesAgreeWithASet(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var r ranges
		set := map[uint64]bool{}
		for range 40 {
			lo := rnd.Uint64N(100)
			s := span{lo, lo + rnd.Uint64N(6)}
			r = r.add(s)
			for id := s.lo; id <= s.hi; id++ {
				set[id] = true
			}
		}
		for id := range uint64(110) {
			require.Equal(t, set[id] && set[id+1], r.containsAll(span{id, id + 1}))
			require.Equal(t, set[id], r.contains(id))
			require.Equal(t, set[id] || set[id+1], r.overlaps(span{id, id + 1}))
		}
		for i := 1; i < len(r); i++ {
			require.Greater(t, r[i].lo, r[i-1].hi+1)
		}
	}
}
