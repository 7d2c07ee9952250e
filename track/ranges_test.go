package track

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRanges(t *testing.T) {
	tests := []struct {
		add  []span
		want ranges
	}{
		{[]span{{5, 5}}, ranges{{5, 5}}},
		{[]span{{0, 0}, {1, 1}, {2, 2}}, ranges{{0, 2}}},
		{[]span{{2, 2}, {1, 1}, {0, 0}}, ranges{{0, 2}}},
		{[]span{{0, 1}, {5, 6}}, ranges{{0, 1}, {5, 6}}},
		{[]span{{5, 6}, {0, 1}, {2, 4}}, ranges{{0, 6}}},
		{[]span{{5, 6}, {9, 9}, {12, 20}, {0, 13}}, ranges{{0, 20}}},
		{[]span{{7, math.MaxUint64}, {3, 3}}, ranges{{3, 3}, {7, math.MaxUint64}}},
		{[]span{{7, 9}, {3, 3}, {0, math.MaxUint64}}, ranges{{0, math.MaxUint64}}},
	}
	for _, tt := range tests {
		var r ranges
		for _, s := range tt.add {
			r = r.add(s)
		}
		require.Equal(t, tt.want, r)
	}
}

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
