package track

import (
	"math"
	"slices"
	"sort"
)

// span is the ids from lo to hi, both included.
type span struct{ lo, hi uint64 }

// ranges is a set of ids as sorted spans that neither overlap nor touch. Ids mostly come in sequence, so a set is
// mostly one span.
type ranges []span

// find returns the index of the first span that ends at or after id.
func (r ranges) find(id uint64) int {
	return sort.Search(len(r), func(i int) bool { return r[i].hi >= id })
}

func (r ranges) contains(id uint64) bool {
	i := r.find(id)
	return i < len(r) && r[i].lo <= id
}

// containsAll reports whether all ids of s are in the set. They are if there are none.
func (r ranges) containsAll(s span) bool {
	i := r.find(s.lo)
	return s.lo > s.hi || i < len(r) && r[i].lo <= s.lo && s.hi <= r[i].hi
}

// overlaps reports whether any id of s is in the set.
func (r ranges) overlaps(s span) bool {
	i := r.find(s.lo)
	return i < len(r) && r[i].lo <= s.hi
}

// from returns the first span that ends at or after id.
func (r ranges) from(id uint64) (span, bool) {
	if i := r.find(id); i < len(r) {
		return r[i], true
	}
	return span{}, false
}

func (r ranges) max() (uint64, bool) {
	if len(r) == 0 {
		return 0, false
	}
	return r[len(r)-1].hi, true
}

// add returns the set with the ids of s.
func (r ranges) add(s span) ranges {
	i := r.find(s.lo - min(s.lo, 1)) // the first span that overlaps or touches s, if one does
	j := i
	for j < len(r) && (s.hi == math.MaxUint64 || r[j].lo <= s.hi+1) {
		s.lo, s.hi = min(s.lo, r[j].lo), max(s.hi, r[j].hi)
		j++
	}
	return slices.Replace(r, i, j, s)
}

// keep returns the set. If it has more spans than limit, only limit/2 remain, the highest: so the set is not copied for
// each further id.
func (r ranges) keep(limit int) ranges {
	if len(r) <= limit {
		return r
	}
	return slices.Clone(r[len(r)-limit/2:])
}
