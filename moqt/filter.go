package moqt

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// FilterType is a kind of Location Filter (draft §5.1.2).
type FilterType uint64

// Filter types. Versions write them in different ways. Some cannot be sent in all versions: AppendMessage then fails.
const (
	FilterNone          FilterType = 0x0 // everything; in an update, the filter is removed
	FilterRelativeStart FilterType = 0x1 // from the group that is Groups before the next one; not 0: since draft-20
	FilterLargestObject FilterType = 0x2 // from the object after the largest one, the Next Object
	FilterAbsoluteStart FilterType = 0x3 // from Start
	FilterAbsoluteRange FilterType = 0x4 // from Start to the end of group Start.Group + EndGroupDelta
	FilterObjectRange   FilterType = 0x5 // from Start to EndObject in that group, which is included; since draft-20
)

// Filter is a Location Filter (draft §5.1.2, which calls it Subscription Filter).
type Filter struct {
	Type          FilterType
	Start         Location // with FilterAbsoluteStart, FilterAbsoluteRange and FilterObjectRange
	EndGroupDelta uint64   // with FilterAbsoluteRange and FilterObjectRange
	EndObject     uint64   // with FilterObjectRange
	Groups        uint64   // with FilterRelativeStart
}

// Range returns the locations that pass the filter of a subscription. largest is the Largest Object of the publisher
// when it processes the request, or nil if no object has been published. A nil Filter passes everything.
func (f *Filter) Range(largest *Location) Range {
	if f == nil {
		return Everything
	}
	switch f.Type {
	case FilterNone:
		return Everything
	case FilterAbsoluteStart:
		return Range{f.Start, MaxLocation}
	case FilterAbsoluteRange:
		return Range{f.Start, Location{f.Start.Group + f.EndGroupDelta, math.MaxUint64}}
	case FilterObjectRange:
		return Range{f.Start, Location{f.Start.Group + f.EndGroupDelta, f.EndObject}}
	}
	if largest == nil {
		return Everything
	}
	start := *largest
	if f.Type == FilterRelativeStart {
		if f.Groups > 0 {
			return Range{Location{Group: largest.Group - min(largest.Group, f.Groups-1)}, MaxLocation}
		}
		start.Object = math.MaxUint64 // the location after it is the first of the next group
	}
	if start == MaxLocation {
		return Range{Start: MaxLocation} // nothing can follow
	}
	return Range{start.Next(), MaxLocation}
}

// FillRange returns the locations that a fill with the filter delivers: Range up to the Largest Object (draft-20
// §5.1.3).
func (f *Filter) FillRange(largest Location) Range {
	return f.Range(&largest).Intersect(Range{End: largest})
}

// Everywhere reports whether the filter passes everything.
func (f *Filter) Everywhere() bool {
	return f == nil || f.Type == FilterNone || f.Type == FilterAbsoluteStart && f.Start == Location{}
}

// filterOf returns a filter that passes r, or nil if everything does.
func filterOf(r Range) *Filter {
	f := &Filter{Type: FilterObjectRange, Start: r.Start, EndGroupDelta: r.End.Group - r.Start.Group,
		EndObject: r.End.Object}
	switch {
	case r == Everything:
		return nil
	case r.End == MaxLocation:
		return &Filter{Type: FilterAbsoluteStart, Start: r.Start}
	case r.End.Object == math.MaxUint64:
		f.Type, f.EndObject = FilterAbsoluteRange, 0
	}
	return f
}

// validate returns an error if a receiver must answer f with PROTOCOL_VIOLATION.
func (f Filter) validate() error {
	if f.Type > FilterObjectRange {
		return fmt.Errorf("unknown location filter type %#x", uint64(f.Type))
	}
	if f.EndGroupDelta > math.MaxUint64-f.Start.Group {
		return errors.New("end group of location filter exceeds 2^64-1")
	}
	return nil
}

// numbers returns the numbers that a filter consists of in the drafts since 20.
func (f Filter) numbers() []uint64 {
	all := []uint64{f.Start.Group, f.Start.Object, f.EndGroupDelta, f.EndObject}
	switch f.Type {
	case FilterRelativeStart:
		return []uint64{f.Groups}
	case FilterAbsoluteStart:
		return all[:2]
	case FilterAbsoluteRange:
		return all[:3]
	case FilterObjectRange:
		return all
	}
	return nil
}

// filterOfFields is the reverse.
func filterOfFields(typ FilterType, fields []uint64) Filter {
	if typ == FilterRelativeStart {
		return Filter{Type: typ, Groups: fields[0]}
	}
	var all [4]uint64
	copy(all[:], fields)
	return Filter{Type: typ, Start: Location{all[0], all[1]}, EndGroupDelta: all[2], EndObject: all[3]}
}

func (f *Filter) fields(c *coder) { c.wire.filter(f, c) }

// typed is the format of LOCATION_FILTER to draft-19: a length, the type and its fields. Everything is a range from
// the first location on.
func (f *Filter) typed(c *coder) {
	c.check(f.validate())
	f.typedFields(c)
	c.check(f.validate())
}

// typedFields does not look at the sum of Start and EndGroupDelta.
func (f *Filter) typedFields(c *coder) {
	switch {
	case f.Type == FilterNone && c.writes:
		f.Type = FilterAbsoluteStart
	case f.Type == FilterObjectRange:
		c.fail(errors.New("a location filter cannot end within a group in this version"))
	case f.Type == FilterRelativeStart && f.Groups > 0:
		c.fail(errors.New("a location filter cannot start before the next group in this version"))
	}
	c.prefixed(maxPayloadLen, "location filter", func(c *coder) {
		c.varint((*uint64)(&f.Type))
		if f.Type == FilterAbsoluteStart || f.Type == FilterAbsoluteRange {
			f.Start.fields(c)
		}
		if f.Type == FilterAbsoluteRange {
			c.varint(&f.EndGroupDelta)
		}
		if f.Type == FilterNone || f.Type >= FilterObjectRange {
			c.check(fmt.Errorf("unknown location filter type %#x", uint64(f.Type)))
		}
	})
}

// counted is the format of draft-20 and 21: a length and the fields, whose number tells what they mean. Two zeros
// mean the Next Object.
func (f *Filter) counted(c *coder) {
	c.check(f.validate())
	fields := f.numbers()
	switch {
	case f.Type == FilterLargestObject:
		fields = []uint64{0, 0}
	case f.Everywhere():
		fields = nil
	}
	c.prefixed(maxPayloadLen, "location filter", func(c *coder) { c.numbers(&fields, 4) })
	if c.writes {
		return
	}
	if *f = filterOfFields(filterTypes[len(fields)], fields); f.Type == FilterAbsoluteStart && f.Start == (Location{}) {
		f.Type = FilterLargestObject
	}
	c.check(f.validate())
}

// filterTypes are the Location Filter Types since draft-22, and filterLens how many fields follow. Of counted, the
// number of fields is the type.
var (
	filterTypes = []FilterType{
		FilterNone, FilterRelativeStart, FilterAbsoluteStart, FilterAbsoluteRange, FilterObjectRange,
		FilterLargestObject,
	}
	filterLens = [...]int{0, 1, 2, 3, 4, 0}
)

// selfDelimiting is the format since draft-22: a type and its fields, without a length.
func (f *Filter) selfDelimiting(c *coder) {
	c.check(f.validate())
	code := uint64(slices.Index(filterTypes, f.Type))
	if c.varint(&code); code >= uint64(len(filterTypes)) {
		c.check(fmt.Errorf("unknown location filter type %#x", code))
		return
	}
	fields := f.numbers()
	if !c.writes {
		fields = make([]uint64, filterLens[code])
	}
	c.numbers(&fields, len(fields))
	if !c.writes {
		*f = filterOfFields(filterTypes[code], fields)
		c.check(f.validate())
	}
}
