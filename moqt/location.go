package moqt

import (
	"cmp"
	"fmt"
	"math"
)

// Location identifies an object within a track (draft §1.4.2).
type Location struct {
	Group, Object uint64
}

// MaxLocation is the largest Location.
var MaxLocation = Location{math.MaxUint64, math.MaxUint64}

// Compare orders locations by group, then object: negative if l < m, zero if equal, positive if l > m.
func (l Location) Compare(m Location) int {
	return cmp.Or(cmp.Compare(l.Group, m.Group), cmp.Compare(l.Object, m.Object))
}

// Less reports whether l comes before m.
func (l Location) Less(m Location) bool { return l.Compare(m) < 0 }

// Next returns the Location after l. After MaxLocation there is none, and Next returns MaxLocation itself.
func (l Location) Next() Location {
	switch {
	case l.Object < math.MaxUint64:
		return Location{l.Group, l.Object + 1}
	case l.Group < math.MaxUint64:
		return Location{l.Group + 1, 0}
	default:
		return l
	}
}

func (l *Location) fields(c *coder) { c.varints(&l.Group, &l.Object) }

// String returns "{group, object}", the notation of the draft.
func (l Location) String() string { return fmt.Sprintf("{%d, %d}", l.Group, l.Object) }

// Range is the set of locations from Start to End, both included. It is empty if End is less than Start. An End.Object
// of 2^64-1 includes the whole of the last group.
type Range struct {
	Start, End Location
}

// Everything is the range of an unfiltered subscription.
var Everything = Range{End: MaxLocation}

// Contains reports whether l lies in r.
func (r Range) Contains(l Location) bool { return !l.Less(r.Start) && !r.End.Less(l) }

// Empty reports whether r contains no location.
func (r Range) Empty() bool { return r.End.Less(r.Start) }

// Intersect returns the locations that r and o have in common.
func (r Range) Intersect(o Range) Range {
	if r.Start.Less(o.Start) {
		r.Start = o.Start
	}
	if o.End.Less(r.End) {
		r.End = o.End
	}
	return r
}

// FetchRange returns the range that the fields Start Location and End Location of a FETCH stand for. End Location is
// the last object plus 1, or 0 for the entire group (draft §10.12.1, §10.13).
func FetchRange(start, end Location) Range {
	// Unsigned wrap-around turns the 0 of "entire group" into the largest Object ID.
	return Range{start, Location{end.Group, end.Object - 1}}
}

// FetchEnd returns the End Location field that stands for r.End in FETCH and FETCH_OK.
func (r Range) FetchEnd() Location { return Location{r.End.Group, r.End.Object + 1} }
