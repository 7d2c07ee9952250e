package media

import "slices"

// span is the half-open range [from, to) of stream offsets.
type span struct{ from, to int64 }

// spans is a set of stream offsets: disjoint, non-adjacent, ascending.
type spans []span

// add adds [from, to).
func (s *spans) add(from, to int64) {
	if from >= to {
		return
	}
	i, j := s.touching(from, to)
	if i < j {
		from, to = min(from, (*s)[i].from), max(to, (*s)[j-1].to)
	}
	*s = slices.Replace(*s, i, j, span{from, to})
}

// remove removes [from, to).
func (s *spans) remove(from, to int64) {
	if from >= to || len(*s) == 0 {
		return
	}
	i, j := s.touching(from, to)
	if i == j {
		return
	}
	var rest [2]span
	n := 0
	if first := (*s)[i]; first.from < from {
		rest[n] = span{first.from, min(from, first.to)}
		n++
	}
	if last := (*s)[j-1]; last.to > to {
		rest[n] = span{max(to, last.from), last.to}
		n++
	}
	*s = slices.Replace(*s, i, j, rest[:n]...)
}

// touching returns the index range of the spans that overlap [from, to) or are adjacent to it.
func (s *spans) touching(from, to int64) (i, j int) {
	i, _ = slices.BinarySearchFunc(*s, from, func(a span, from int64) int {
		if a.to < from {
			return -1
		}
		return 1
	})
	for j = i; j < len(*s) && (*s)[j].from <= to; j++ {
	}
	return i, j
}

// addMissing adds what of [from, to) is not in known.
func (s *spans) addMissing(from, to int64, known spans) {
	i, j := known.touching(from, to)
	for _, k := range known[i:j] {
		s.add(from, min(k.from, to))
		from = max(from, k.to)
	}
	s.add(from, to)
}

// contains reports whether all of [from, to) is in the set.
func (s spans) contains(from, to int64) bool {
	if from >= to {
		return true
	}
	i, j := s.touching(from, to)
	for _, k := range s[i:j] {
		if k.from <= from && to <= k.to {
			return true
		}
	}
	return false
}
