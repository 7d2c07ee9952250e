package moqt

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hasInvalidFilter reports whether a message that was parsed has a Range Filter that must be refused.
func hasInvalidFilter(m Message) bool {
	p := PartsOf(m).Parameters
	if p == nil {
		return false
	}
	for _, filters := range []RangeFilters{p.RangeFilters, fillOf(p).RangeFilters} {
		for _, f := range filters {
			if f.validate() != nil {
				return true
			}
		}
	}
	return false
}

func fillOf(p *Parameters) *Parameters {
	if p.Fill == nil {
		return &Parameters{}
	}
	return p.Fill
}

// subscribeWith parses a SUBSCRIBE with n parameters.
func subscribeWith(t *testing.T, n int, parameters string) RangeFilters {
	t.Helper()
	payload := fmt.Sprintf("00 00 00 %x", AppendVarint(nil, uint64(n))) + parameters
	m, err := ParseMessage(Draft19, MessageSubscribe, unhex(payload))
	require.NoError(t, err)
	return m.(*Subscribe).Parameters.RangeFilters
}

// TestInvalidFilters has a row for each case in which draft-20 §5.1.4 demands INVALID_FILTER: the session goes on.
func TestInvalidFilters(t *testing.T) {
	for _, tc := range []struct {
		name       string
		n          int
		parameters string
		want       string
	}{
		{"start above 2^64-1", 1, "25 0d 00 01 01 ffffffffffffffffff 00", "2^64-1"},
		{"end above 2^64-1", 1, "26 0b 00 01 ffffffffffffffffff", "2^64-1"},
		{"no range", 1, "25 01 00", "no range"},
		{"empty", 1, "25 00", "no range"},
		{"property without a range", 1, "28 02 00 04", "no range"},
		{"odd property", 1, "28 03 00 05 01", "0x5 is not a number"},
		{"priority above 255", 1, "27 04 00 01 80ff", "256 is above 255"},
		{"priorities from 256 on", 1, "27 03 00 8100", "256 is above 255"},
		{"same set twice", 2, "25 03 07 01 01 00 03 07 05 01", "twice in set 7"},
		{"same property twice", 2, "28 04 00 04 01 01 00 04 00 04 05 01", "twice in set 0"},
		{"more ranges than allowed", 1, "25 09 00" + strings.Repeat("00 01", 4), "4 ranges"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.ErrorContains(t, subscribeWith(t, tc.n, tc.parameters).Check(3, false), tc.want)
		})
	}
	// The kept filters have limits.
	filters := subscribeWith(t, 1, "25 9003 00"+strings.Repeat("00", 0x1002))
	require.Len(t, filters[0].Ranges, maxValueRanges)
	require.ErrorContains(t, filters.Check(1<<20, false), "too many ranges")
	var b strings.Builder
	for set := range 100 {
		typ := 0 // the difference from the type before
		if set == 0 {
			typ = 0x25
		}
		fmt.Fprintf(&b, "%02x 02 %02x 01", typ, set)
	}
	filters = subscribeWith(t, 100, b.String())
	require.Len(t, filters, maxRangeFilters)
	require.ErrorContains(t, filters.Check(1<<20, false), "too many range filters")

	require.NoError(t, subscribeWith(t, 2, "25 03 00 01 01 00 03 01 01 01").Check(2, false))
	require.NoError(t, subscribeWith(t, 2, "28 04 00 04 01 01 00 04 00 06 01 01").Check(2, false))
	require.NoError(t, subscribeWith(t, 1, "27 02 00 05").Check(1, false), "priorities from 5 on")
	require.NoError(t, subscribeWith(t, 1, "25 00").Check(0, true), "an update removes a filter")
}

func TestRangeFiltersPass(t *testing.T) {
	properties, err := NewProperties(KeyValuePair{Type: 0x100, Value: 7}, KeyValuePair{Type: 0x101, Bytes: []byte{7}})
	require.NoError(t, err)
	o := FilteredObject{Subgroup: 2, ID: 10, Priority: 100, Properties: properties}
	datagram := o
	datagram.Datagram = true
	one := func(typ ParameterType, set uint8, property uint64, ranges ...ValueRange) RangeFilter {
		return RangeFilter{Type: typ, Set: set, Property: property, Ranges: ranges}
	}
	in, out := ValueRange{2, 200}, ValueRange{300, top}
	for _, tc := range []struct {
		name    string
		filters RangeFilters
		want    bool
	}{
		{"none", nil, true},
		{"subgroup", RangeFilters{one(ParameterSubgroupFilter, 0, 0, ValueRange{0, 1}, ValueRange{2, 2})}, true},
		{"another subgroup", RangeFilters{one(ParameterSubgroupFilter, 0, 0, ValueRange{0, 1}, ValueRange{3, 9})},
			false},
		{"object id", RangeFilters{one(ParameterObjectIDFilter, 0, 0, in)}, true},
		{"another object id", RangeFilters{one(ParameterObjectIDFilter, 0, 0, out)}, false},
		{"priority", RangeFilters{one(ParameterPriorityFilter, 0, 0, in)}, true},
		{"another priority", RangeFilters{one(ParameterPriorityFilter, 0, 0, out)}, false},
		{"property", RangeFilters{one(ParameterObjectPropertyFilter, 0, 0x100, in)}, true},
		{"another value", RangeFilters{one(ParameterObjectPropertyFilter, 0, 0x100, out)}, false},
		{"property that is absent", RangeFilters{one(ParameterObjectPropertyFilter, 0, 0x102, ValueRange{0, top})},
			false},
		{"one set, all pass", RangeFilters{
			one(ParameterSubgroupFilter, 3, 0, in), one(ParameterObjectIDFilter, 3, 0, in),
		}, true},
		{"one set, one does not", RangeFilters{
			one(ParameterSubgroupFilter, 3, 0, in), one(ParameterObjectIDFilter, 3, 0, out),
		}, false},
		{"two sets, one passes", RangeFilters{
			one(ParameterSubgroupFilter, 255, 0, in), one(ParameterObjectIDFilter, 3, 0, out),
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tc.filters.Pass(&o)) })
	}
	require.False(t, RangeFilters{one(ParameterSubgroupFilter, 0, 0, ValueRange{0, top})}.Pass(&datagram),
		"a datagram has no subgroup")
	require.True(t, RangeFilters{one(ParameterObjectIDFilter, 0, 0, in)}.Pass(&datagram))
}

func TestRangeFiltersForTrack(t *testing.T) {
	properties, err := NewProperties(KeyValuePair{Type: 0x100, Value: 7})
	require.NoError(t, err)
	matches := func(set uint8) RangeFilter {
		return RangeFilter{Type: ParameterTrackPropertyFilter, Set: set, Property: 0x100, Ranges: []ValueRange{{7, 7}}}
	}
	misses := func(set uint8) RangeFilter {
		return RangeFilter{Type: ParameterTrackPropertyFilter, Set: set, Property: 0x100, Ranges: []ValueRange{{8, 9}}}
	}
	object := func(set uint8) RangeFilter {
		return RangeFilter{Type: ParameterObjectIDFilter, Set: set, Ranges: []ValueRange{{1, 1}}}
	}
	for _, tc := range []struct {
		name    string
		filters RangeFilters
		want    RangeFilters
		passes  bool
	}{
		{"none", nil, nil, true},
		{"match", RangeFilters{matches(0)}, nil, true},
		{"miss", RangeFilters{misses(0)}, nil, false},
		{"two in a set", RangeFilters{matches(0), misses(0)}, nil, false},
		{"two sets", RangeFilters{matches(0), misses(1)}, nil, true},
		{"objects of a set that matches", RangeFilters{object(0), matches(0)}, RangeFilters{object(0)}, true},
		{"objects of a set that misses", RangeFilters{object(0), object(1), misses(0)}, RangeFilters{object(1)}, true},
		{"objects alone", RangeFilters{object(0)}, RangeFilters{object(0)}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, passes := tc.filters.ForTrack(properties)
			require.Equal(t, tc.passes, passes)
			require.ElementsMatch(t, tc.want, got)
		})
	}
}

func TestRangeFiltersForSubgroup(t *testing.T) {
	one := func(typ ParameterType, set uint8, first, last uint64) RangeFilter {
		return RangeFilter{Type: typ, Set: set, Property: 0x100, Ranges: []ValueRange{{first, last}}}
	}
	subgroup := func(set uint8, only uint64) RangeFilter { return one(ParameterSubgroupFilter, set, only, only) }
	priority := func(set uint8, only uint64) RangeFilter { return one(ParameterPriorityFilter, set, only, only) }
	id := func(set uint8) RangeFilter { return one(ParameterObjectIDFilter, set, 1, 1) }
	property := func(set uint8) RangeFilter { return one(ParameterObjectPropertyFilter, set, 1, 1) }
	for _, tc := range []struct {
		name       string
		filters    RangeFilters
		properties bool
		want       RangeFilters
		passes     bool
	}{
		{"none", nil, true, nil, true},
		{"its id", RangeFilters{subgroup(0, 2)}, true, nil, true},
		{"another id", RangeFilters{subgroup(0, 3)}, true, nil, false},
		{"its priority", RangeFilters{subgroup(0, 2), priority(0, 7)}, true, nil, true},
		{"another priority", RangeFilters{subgroup(0, 2), priority(0, 8)}, true, nil, false},
		{"one of two sets", RangeFilters{subgroup(0, 3), subgroup(1, 2)}, true, nil, true},
		{"objects", RangeFilters{id(0)}, true, RangeFilters{id(0)}, true},
		{"objects of its id", RangeFilters{subgroup(0, 2), id(0)}, true, RangeFilters{id(0)}, true},
		{"objects of another id", RangeFilters{subgroup(0, 3), id(0)}, true, nil, false},
		{"objects, or all", RangeFilters{subgroup(1, 2), id(0)}, true, nil, true},
		{"objects of two sets", RangeFilters{subgroup(1, 3), id(0), id(1), property(2)}, true,
			RangeFilters{id(0), property(2)}, true},
		{"no properties", RangeFilters{property(0)}, false, nil, false},
		{"no properties, or an id", RangeFilters{property(0), id(1)}, false, RangeFilters{id(1)}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, passes := tc.filters.ForSubgroup(2, 7, tc.properties)
			require.Equal(t, tc.passes, passes)
			require.True(t, tc.want.Equal(got), got)
		})
	}
}

// TestRangeFiltersInSteps checks that deciding about a subgroup first gives the same as looking at each object.
func TestRangeFiltersInSteps(t *testing.T) {
	types := []ParameterType{
		ParameterSubgroupFilter, ParameterObjectIDFilter, ParameterPriorityFilter, ParameterObjectPropertyFilter,
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	few := func() uint64 { return rnd.Uint64N(4) }
	for range 20_000 {
		var filters RangeFilters
		for range rnd.IntN(6) {
			first := few()
			filters = append(filters, RangeFilter{
				Type: types[rnd.IntN(len(types))], Set: uint8(few()), Property: 2 * few(),
				Ranges: []ValueRange{{first, first + few()}},
			})
		}
		o := FilteredObject{Subgroup: few(), ID: few(), Priority: uint8(few())}
		if rnd.IntN(2) == 0 {
			o.Properties, _ = NewProperties(KeyValuePair{Type: 2 * few(), Value: few()})
		}
		require.Equal(t, filters.Pass(&o) && o.ID <= 2, filters.UpTo(2).Pass(&o), "%v %v", filters, o)
		rest, some := filters.ForSubgroup(o.Subgroup, o.Priority, o.Properties != nil)
		require.Equal(t, filters.Pass(&o), some && rest.Pass(&o), "%v %v", filters, o)
	}
}

func TestUpdatedRangeFilters(t *testing.T) {
	p := Parameters{RangeFilters: RangeFilters{
		{Type: ParameterSubgroupFilter, Set: 1, Ranges: []ValueRange{{1, 1}}},
		{Type: ParameterPriorityFilter, Ranges: []ValueRange{{2, 2}}},
	}}
	p.Merge(&Parameters{RangeFilters: RangeFilters{
		{Type: ParameterSubgroupFilter, Ranges: []ValueRange{{3, 3}}},
		{Type: ParameterObjectIDFilter, Ranges: []ValueRange{{4, 4}}},
		{Type: ParameterPriorityFilter},
	}})
	require.Equal(t, RangeFilters{
		{Type: ParameterSubgroupFilter, Ranges: []ValueRange{{3, 3}}},
		{Type: ParameterObjectIDFilter, Ranges: []ValueRange{{4, 4}}},
	}, p.RangeFilters)
}
