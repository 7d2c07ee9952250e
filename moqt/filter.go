package moqt

import (
	"errors"
	"fmt"
	"math"
)

// FilterType is a kind of Subscription Filter (draft §5.1.2).
type FilterType uint64

// Filter types.
const (
	FilterNextGroupStart FilterType = 0x1 // from the group after the largest one
	FilterLargestObject  FilterType = 0x2 // from the object after the largest one
	FilterAbsoluteStart  FilterType = 0x3 // from Start
	FilterAbsoluteRange  FilterType = 0x4 // from Start to the end of group Start.Group + EndGroupDelta
)

// Filter is a Subscription Filter (draft §5.1.2).
type Filter struct {
	Type          FilterType
	Start         Location // with FilterAbsoluteStart and FilterAbsoluteRange
	EndGroupDelta uint64   // with FilterAbsoluteRange
}

// Range returns the locations that pass the filter. largest is the Largest Object of the publisher when it processes
// the request, or nil if no object has been published. A nil Filter passes everything.
func (f *Filter) Range(largest *Location) Range {
	if f == nil {
		return Everything
	}
	switch f.Type {
	case FilterAbsoluteStart:
		return Range{f.Start, MaxLocation}
	case FilterAbsoluteRange:
		return wholeGroups(f.Start, f.Start.Group+f.EndGroupDelta)
	}
	if largest == nil {
		return Everything
	}
	start := *largest
	if f.Type == FilterNextGroupStart {
		start.Object = math.MaxUint64 // the location after it is the first of the next group
	}
	if start == MaxLocation {
		return Range{Start: MaxLocation} // nothing can follow
	}
	return Range{start.Next(), MaxLocation}
}

// validate returns an error if a receiver must answer f with PROTOCOL_VIOLATION.
func (f Filter) validate() error {
	if f.Type < FilterNextGroupStart || f.Type > FilterAbsoluteRange {
		return fmt.Errorf("unknown subscription filter type %#x", uint64(f.Type))
	}
	if f.Type == FilterAbsoluteRange && f.EndGroupDelta > math.MaxUint64-f.Start.Group {
		return errors.New("end group of subscription filter exceeds 2^64-1")
	}
	return nil
}

func (d *decoder) filter() (f Filter) {
	f.Type = FilterType(d.varint())
	if f.Type == FilterAbsoluteStart || f.Type == FilterAbsoluteRange {
		f.Start = d.location()
	}
	if f.Type == FilterAbsoluteRange {
		f.EndGroupDelta = d.varint()
	}
	d.check(f.validate())
	return f
}

func (e *encoder) filter(f Filter) {
	e.fail(f.validate())
	e.varint(uint64(f.Type))
	if f.Type == FilterAbsoluteStart || f.Type == FilterAbsoluteRange {
		e.location(f.Start)
	}
	if f.Type == FilterAbsoluteRange {
		e.varint(f.EndGroupDelta)
	}
}
