package moqt

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// RangeFilter is a Range Filter (draft-20 §5.1.4): one of the numbers of an object, or of a track, must be in one of
// several ranges.
type RangeFilter struct {
	Type     ParameterType // ParameterSubgroupFilter to ParameterTrackPropertyFilter
	Set      uint8         // an object passes if all filters of a set pass it
	Property uint64        // with ParameterObjectPropertyFilter and ParameterTrackPropertyFilter
	Ranges   []ValueRange  // ascending; none: an update removes the filters of this type

	invalid string // why a filter that was received cannot be used
}

// Limits of the Range Filters that a message can have. Filters beyond them are refused with INVALID_FILTER, and no
// receiver allows so many.
const (
	maxRangeFilters = 64
	maxValueRanges  = 1024 // of a filter
)

// ValueRange is the numbers from First to Last, both included.
type ValueRange struct{ First, Last uint64 }

// hasProperty reports whether the filter is about a property.
func (f *RangeFilter) hasProperty() bool {
	return f.Type == ParameterObjectPropertyFilter || f.Type == ParameterTrackPropertyFilter
}

// validate returns an error if a receiver must answer f with INVALID_FILTER.
func (f *RangeFilter) validate() error {
	if f.invalid != "" {
		return errors.New(f.invalid)
	}
	if f.hasProperty() && f.Property%2 == 1 {
		return fmt.Errorf("property %#x is not a number", f.Property)
	}
	for i, r := range f.Ranges {
		switch {
		case r.Last < r.First || i > 0 && r.First < f.Ranges[i-1].Last:
			return fmt.Errorf("ranges of filter %#x are not ascending", uint64(f.Type))
		case f.Type == ParameterPriorityFilter && r.Last > math.MaxUint8 && r.Last != math.MaxUint64:
			return fmt.Errorf("priority %d is above 255", r.Last)
		case f.Type == ParameterPriorityFilter && r.First > math.MaxUint8:
			return fmt.Errorf("priority %d is above 255", r.First)
		}
	}
	return nil
}

func (f *RangeFilter) contains(x uint64) bool {
	return slices.ContainsFunc(f.Ranges, func(r ValueRange) bool { return r.First <= x && x <= r.Last })
}

// RangeFilters are the Range Filters of a request.
type RangeFilters []RangeFilter

// Check returns why a receiver that allows limit ranges must refuse the filters of a request with INVALID_FILTER
// (draft-20 §5.1.4), or nil. Only an update may have filters without ranges.
func (fs RangeFilters) Check(limit uint64, update bool) error {
	type key struct {
		typ      ParameterType
		set      uint8
		property uint64
	}
	seen, ranges := make(map[key]bool), uint64(0)
	for i := range fs {
		f := &fs[i]
		if err := f.validate(); err != nil {
			return err
		}
		if len(f.Ranges) == 0 && !update {
			return fmt.Errorf("filter %#x has no range", uint64(f.Type))
		}
		if k := (key{f.Type, f.Set, f.Property}); seen[k] {
			return fmt.Errorf("filter %#x appears twice in set %d", uint64(f.Type), f.Set)
		} else {
			seen[k] = true
		}
		ranges += uint64(len(f.Ranges))
	}
	if ranges > limit {
		return fmt.Errorf("%d ranges in filters, at most %d are allowed", ranges, limit)
	}
	return nil
}

// ForTrack returns the filters that the objects of a track with these properties have to pass, and false if the track
// itself does not pass.
func (fs RangeFilters) ForTrack(p Properties) (RangeFilters, bool) {
	return fs.rest(func(f *RangeFilter) (passes, decided bool) {
		if f.Type != ParameterTrackPropertyFilter {
			return false, false
		}
		pair, ok := p.Lookup(f.Property)
		return ok && f.contains(pair.Value), true
	})
}

// ForSubgroup returns the filters that the objects of a subgroup have to pass, and false if none of them passes.
// properties is whether objects of the subgroup may have properties.
func (fs RangeFilters) ForSubgroup(id uint64, priority uint8, properties bool) (RangeFilters, bool) {
	return fs.rest(func(f *RangeFilter) (passes, decided bool) {
		switch f.Type {
		case ParameterSubgroupFilter:
			return f.contains(id), true
		case ParameterPriorityFilter:
			return f.contains(uint64(priority)), true
		case ParameterObjectPropertyFilter:
			return false, !properties
		}
		return false, false
	})
}

// rest returns the filters that remain when some are decided, and false if nothing can pass any more.
func (fs RangeFilters) rest(decide func(*RangeFilter) (passes, decided bool)) (RangeFilters, bool) {
	if len(fs) == 0 {
		return nil, true
	}
	var refused, open [256]bool
	var undecided RangeFilters
	for i := range fs {
		f := &fs[i]
		switch passes, decided := decide(f); {
		case !decided:
			open[f.Set] = true
			undecided = append(undecided, *f)
		case !passes:
			refused[f.Set] = true
		}
	}
	for _, f := range fs {
		if !refused[f.Set] && !open[f.Set] {
			return nil, true // a set without more conditions passes all
		}
	}
	undecided = slices.DeleteFunc(undecided, func(f RangeFilter) bool { return refused[f.Set] })
	return undecided, len(undecided) > 0
}

// UpTo returns filters that pass only those objects that fs passes and that have ids up to last.
func (fs RangeFilters) UpTo(last uint64) RangeFilters {
	if last == math.MaxUint64 {
		return fs
	}
	limit := RangeFilter{Type: ParameterObjectIDFilter, Ranges: []ValueRange{{0, last}}}
	if len(fs) == 0 {
		return RangeFilters{limit}
	}
	limited := slices.Clone(fs)
	for i, f := range fs {
		limit.Set = f.Set
		if !slices.ContainsFunc(fs[:i], func(g RangeFilter) bool { return g.Set == f.Set }) {
			limited = append(limited, limit)
		}
	}
	return limited
}

// Equal reports whether two lists have the same filters in the same order.
func (fs RangeFilters) Equal(other RangeFilters) bool {
	return slices.EqualFunc(fs, other, func(a, b RangeFilter) bool {
		return a.Type == b.Type && a.Set == b.Set && a.Property == b.Property && slices.Equal(a.Ranges, b.Ranges)
	})
}

// FilteredObject is the part of an object that Range Filters look at.
type FilteredObject struct {
	Subgroup   uint64
	Datagram   bool // the object has no subgroup
	ID         uint64
	Priority   uint8
	Properties Properties
}

// Pass reports whether an object passes. Filters of tracks do not count.
func (fs RangeFilters) Pass(o *FilteredObject) bool {
	if len(fs) == 0 {
		return true
	}
	var present, refused [256]bool
	for i := range fs {
		f := &fs[i]
		present[f.Set] = true
		refused[f.Set] = refused[f.Set] || !f.passes(o)
	}
	for set := range present {
		if present[set] && !refused[set] {
			return true
		}
	}
	return false
}

func (f *RangeFilter) passes(o *FilteredObject) bool {
	switch f.Type {
	case ParameterSubgroupFilter:
		return !o.Datagram && f.contains(o.Subgroup)
	case ParameterObjectIDFilter:
		return f.contains(o.ID)
	case ParameterPriorityFilter:
		return f.contains(uint64(o.Priority))
	case ParameterObjectPropertyFilter:
		pair, ok := o.Properties.Lookup(f.Property)
		return ok && f.contains(pair.Value)
	}
	return true
}

// merge returns fs after an update: the filters of a type replace all of that type.
func (fs RangeFilters) merge(typ ParameterType, update RangeFilters) RangeFilters {
	ofType := func(f RangeFilter) bool { return f.Type == typ }
	if !slices.ContainsFunc(update, ofType) {
		return fs
	}
	merged := slices.DeleteFunc(slices.Clone(fs), ofType)
	for _, f := range update {
		if ofType(f) && len(f.Ranges) > 0 {
			merged = append(merged, f)
		}
	}
	slices.SortStableFunc(merged, func(a, b RangeFilter) int { return int(a.Type) - int(b.Type) })
	return merged
}

// rangeFilters describes the Range Filters of one type, which may be repeated.
func rangeFilters(typ ParameterType, s scopes) parameterFormat {
	find := func(p *Parameters, n int) (f *RangeFilter, count int) {
		for i := range p.RangeFilters {
			if p.RangeFilters[i].Type == typ {
				if count == n {
					f = &p.RangeFilters[i]
				}
				count++
			}
		}
		return f, count
	}
	return parameterFormat{
		typ:        typ,
		scopes:     s,
		repeatable: true,
		count: func(p *Parameters) int {
			_, n := find(p, -1)
			return n
		},
		value: func(c *coder, p *Parameters, i int) {
			if c.writes {
				f, _ := find(p, i)
				f.write(c)
				return
			}
			f := readRangeFilter(c, typ)
			if n := len(p.RangeFilters); n < maxRangeFilters {
				p.RangeFilters = append(p.RangeFilters, f)
			} else {
				p.RangeFilters[n-1].invalid = "too many range filters"
			}
		},
		merge: func(p, update *Parameters) {
			p.RangeFilters = p.RangeFilters.merge(typ, update.RangeFilters)
		},
	}
}

// framed is Length, SetID, Property Type if there is one, and the ranges, whose last end may be left out.
func (f *RangeFilter) framed(c *coder, ranges func(*coder)) {
	c.prefixed(maxPayloadLen, "range filter", func(c *coder) {
		if c.writes && len(f.Ranges) == 0 || !c.writes && len(c.b) == 0 {
			return
		}
		c.byte(&f.Set)
		if f.hasProperty() {
			c.varint(&f.Property)
		}
		ranges(c)
	})
}

func (f *RangeFilter) write(c *coder) {
	c.fail(f.validate())
	f.framed(c, func(c *coder) {
		prior := uint64(0)
		for i, r := range f.Ranges {
			c.varint(new(r.First - prior))
			if i < len(f.Ranges)-1 || r.Last != math.MaxUint64 {
				c.varint(new(r.Last - r.First))
			}
			prior = r.Last
		}
	})
}

// readRangeFilter reads a filter also if it has to be refused with INVALID_FILTER.
func readRangeFilter(c *coder, typ ParameterType) RangeFilter {
	f := RangeFilter{Type: typ}
	f.framed(c, func(c *coder) {
		if len(c.b) == 0 && c.err == nil {
			f.invalid = "a range filter has no range"
		}
		at := uint64(0)
		add := func() uint64 {
			var delta uint64
			if c.varint(&delta); delta > math.MaxUint64-at {
				f.invalid = "a range of a filter exceeds 2^64-1"
			}
			at += delta
			return at
		}
		for len(c.b) > 0 {
			r := ValueRange{First: add(), Last: math.MaxUint64}
			if len(c.b) > 0 {
				r.Last = add()
			}
			if len(f.Ranges) == maxValueRanges {
				f.invalid = "a range filter has too many ranges"
				continue
			}
			f.Ranges = append(f.Ranges, r)
		}
	})
	return f
}
