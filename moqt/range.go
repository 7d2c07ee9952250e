package moqt

import "math"

// Range is the objects from Start to End, both included; it is empty if End < Start. An End.Object of 2^64-1 takes
// in the whole of the last group.
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

// FetchRange returns the range that the Start and End Location fields of a FETCH stand for: End Location is "the last
// object plus 1, or 0 for the entire group" (draft §10.12.1, §10.13).
func FetchRange(start, end Location) Range {
	// Unsigned wrap-around turns the 0 of "entire group" into the largest Object ID.
	return Range{start, Location{end.Group, end.Object - 1}}
}

// FetchEnd returns the End Location field that stands for r.End in FETCH and FETCH_OK.
func (r Range) FetchEnd() Location { return Location{r.End.Group, r.End.Object + 1} }

// wholeGroups is the range from start to the end of the group last.
func wholeGroups(start Location, last uint64) Range {
	return Range{start, Location{last, math.MaxUint64}}
}
