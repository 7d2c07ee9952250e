package moqt

import (
	"errors"
	"fmt"
	"math"
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

// fields returns the numbers that a filter consists of in the drafts since 20.
func (f Filter) fields() []uint64 {
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

// The formats of LOCATION_FILTER.
var (
	typedFilter          = valueFormat[Filter]{(*encoder).typedFilter, (*decoder).typedFilter}     // to draft-19
	countedFilter        = valueFormat[Filter]{(*encoder).countedFilter, (*decoder).countedFilter} // draft-20, 21
	selfDelimitingFilter = valueFormat[Filter]{(*encoder).selfDelimitingFilter, (*decoder).selfDelimitingFilter}
)

// typedFilter writes a length, the type and its fields. Everything is a range from the first location on.
func (e *encoder) typedFilter(f Filter) {
	e.fail(f.validate())
	e.writeTypedFilter(f)
}

// writeTypedFilter writes a filter, with EndGroupDelta as it is.
func (e *encoder) writeTypedFilter(f Filter) {
	if f.Type == FilterNone {
		f.Type = FilterAbsoluteStart
	}
	switch {
	case f.Type == FilterObjectRange:
		e.fail(errors.New("a location filter cannot end within a group in this version"))
	case f.Type == FilterRelativeStart && f.Groups > 0:
		e.fail(errors.New("a location filter cannot start before the next group in this version"))
	}
	e.prefixed(func(e *encoder) {
		e.varint(uint64(f.Type))
		if f.Type == FilterAbsoluteStart || f.Type == FilterAbsoluteRange {
			e.location(f.Start)
		}
		if f.Type == FilterAbsoluteRange {
			e.varint(f.EndGroupDelta)
		}
	})
}

func (d *decoder) typedFilter() Filter {
	f := d.readTypedFilter()
	d.check(f.validate())
	return f
}

// readTypedFilter reads a filter, and its last field into EndGroupDelta.
func (d *decoder) readTypedFilter() (f Filter) {
	d.prefixed("location filter", func(d *decoder) {
		f.Type = FilterType(d.varint())
		if f.Type == FilterAbsoluteStart || f.Type == FilterAbsoluteRange {
			f.Start = d.location()
		}
		if f.Type == FilterAbsoluteRange {
			f.EndGroupDelta = d.varint()
		}
		if f.Type == FilterNone || f.Type == FilterObjectRange {
			d.fail(violation("unknown location filter type %#x", uint64(f.Type)))
		}
		d.check(Filter{Type: f.Type}.validate())
	})
	return f
}

// countedFilter writes a length and the fields, whose number tells what they mean. Two zeros mean the Next Object.
func (e *encoder) countedFilter(f Filter) {
	e.fail(f.validate())
	fields := f.fields()
	switch {
	case f.Type == FilterLargestObject:
		fields = []uint64{0, 0}
	case f.Everywhere():
		fields = nil
	}
	e.prefixed(func(e *encoder) {
		for _, x := range fields {
			e.varint(x)
		}
	})
}

func (d *decoder) countedFilter() (f Filter) {
	d.prefixed("location filter", func(d *decoder) {
		var fields []uint64
		for len(d.b) > 0 && len(fields) < 4 {
			fields = append(fields, d.varint())
		}
		typ := []FilterType{
			FilterNone, FilterRelativeStart, FilterAbsoluteStart, FilterAbsoluteRange, FilterObjectRange,
		}[len(fields)]
		if typ == FilterAbsoluteStart && fields[0] == 0 && fields[1] == 0 {
			f.Type = FilterLargestObject
			return
		}
		f = filterOfFields(typ, fields)
		d.check(f.validate())
	})
	return f
}

// filterTypes are the Location Filter Types since draft-22, and filterLens how many fields follow.
var (
	filterTypes = [...]FilterType{
		FilterNone, FilterRelativeStart, FilterAbsoluteStart, FilterAbsoluteRange, FilterObjectRange,
		FilterLargestObject,
	}
	filterLens = [...]int{0, 1, 2, 3, 4, 0}
)

// selfDelimitingFilter writes a type and its fields, without a length.
func (e *encoder) selfDelimitingFilter(f Filter) {
	e.fail(f.validate())
	for code, typ := range filterTypes {
		if typ == f.Type {
			e.varint(uint64(code))
		}
	}
	for _, x := range f.fields() {
		e.varint(x)
	}
}

func (d *decoder) selfDelimitingFilter() Filter {
	code := d.varint()
	if code >= uint64(len(filterTypes)) {
		d.fail(violation("unknown location filter type %#x", code))
		return Filter{}
	}
	fields := make([]uint64, filterLens[code])
	for i := range fields {
		fields[i] = d.varint()
	}
	f := filterOfFields(filterTypes[code], fields)
	d.check(f.validate())
	return f
}
