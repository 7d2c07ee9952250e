package track

import (
	"cmp"
	"slices"
)

// subgroup has the facts about a subgroup besides its objects.
type subgroup struct {
	id       uint64
	priority uint8
	last     uint64 // id of the last object, if finished
	finished bool
	sources  int   // streams in arrival
	merge    merge // has a lock of its own
}

// subgroups has the subgroups of a group, by id. All methods expect Track.mu to be held.
type subgroups []*subgroup

// search returns where the id is, or would be.
func (l subgroups) search(id uint64) (int, bool) {
	return slices.BinarySearchFunc(l, id, func(s *subgroup, id uint64) int { return cmp.Compare(s.id, id) })
}

// find returns the subgroup with an id, nil if it is not known.
func (l subgroups) find(id uint64) *subgroup {
	if i, ok := l.search(id); ok {
		return l[i]
	}
	return nil
}

// forget forgets up to n subgroups that no stream brings, the lowest ones first: contradictions with later objects of
// them are not noticed any more.
func (l *subgroups) forget(n int) {
	*l = slices.DeleteFunc(*l, func(s *subgroup) bool {
		if n == 0 || s.sources > 0 {
			return false
		}
		n--
		return true
	})
}
