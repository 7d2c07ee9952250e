package replay

import "slices"

// interval is [from, to).
type interval struct{ from, to int64 }

// intervals are disjoint, do not touch, and ascend.
type intervals []interval

// add adds [from, to).
func (s *intervals) add(from, to int64) {
	i, _ := slices.BinarySearchFunc(*s, from, func(v interval, from int64) int { return int(v.to - from) })
	j := i
	for ; j < len(*s) && (*s)[j].from <= to; j++ {
		from, to = min(from, (*s)[j].from), max(to, (*s)[j].to)
	}
	*s = slices.Replace(*s, i, j, interval{from, to})
}

// complete returns up to where everything from 0 on is there.
func (s intervals) complete() int64 {
	if len(s) > 0 && s[0].from == 0 {
		return s[0].to
	}
	return 0
}
