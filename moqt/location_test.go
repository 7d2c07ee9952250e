package moqt

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

const top = math.MaxUint64

func TestLocationOrder(t *testing.T) {
	ascending := []Location{{0, 0}, {0, 1}, {0, top}, {1, 0}, {1, 2}, {top, 0}, {top, top}}
	for i, a := range ascending {
		for j, b := range ascending {
			require.Equal(t, i < j, a.Less(b), "%s < %s", a, b)
			require.Equal(t, i == j, a.Compare(b) == 0)
			require.Equal(t, i > j, a.Compare(b) > 0)
		}
	}
	require.Equal(t, "{1, 2}", Location{1, 2}.String())
}

func TestLocationNext(t *testing.T) {
	for l, want := range map[Location]Location{
		{1, 2}:       {1, 3},
		{1, top}:     {2, 0},
		{top, top}:   {top, top},
		{0, top - 1}: {0, top},
	} {
		require.Equal(t, want, l.Next())
	}
}

func TestRange(t *testing.T) {
	r := Range{Location{1, 2}, Location{3, top}}
	for l, want := range map[Location]bool{
		{1, 1}: false, {1, 2}: true, {2, 0}: true, {3, top}: true, {4, 0}: false, {0, 9}: false,
	} {
		require.Equal(t, want, r.Contains(l), l)
	}
	require.Equal(t, Range{Location{2, 0}, Location{3, top}}, r.Intersect(Range{Location{2, 0}, MaxLocation}))
	require.Equal(t, Range{Location{1, 2}, Location{2, 9}}, r.Intersect(Range{End: Location{2, 9}}))
	require.True(t, r.Intersect(Range{Location{4, 0}, MaxLocation}).Empty())
	require.False(t, r.Empty())
	require.False(t, Range{Location{1, 1}, Location{1, 1}}.Empty())
	require.True(t, Everything.Contains(MaxLocation))
}

// TestFetchRange checks the encoding "plus 1, or 0 for the whole group" in both directions.
func TestFetchRange(t *testing.T) {
	start := Location{1, 0}
	for wire, end := range map[Location]Location{
		{3, 5}:   {3, 4},
		{3, 1}:   {3, 0},
		{3, 0}:   {3, top},
		{3, top}: {3, top - 1},
	} {
		r := FetchRange(start, wire)
		require.Equal(t, Range{start, end}, r)
		require.Equal(t, wire, r.FetchEnd())
	}
	require.True(t, FetchRange(Location{3, 5}, Location{3, 5}).Empty())
}

func TestFilterRange(t *testing.T) {
	largest := &Location{7, 3}
	for _, tc := range []struct {
		name    string
		filter  *Filter
		largest *Location
		want    Range
	}{
		{"no filter", nil, largest, Everything},
		{"largest object", &Filter{Type: FilterLargestObject}, largest, Range{Location{7, 4}, MaxLocation}},
		{"largest object, none published", &Filter{Type: FilterLargestObject}, nil, Everything},
		{"largest object is the last one", &Filter{Type: FilterLargestObject}, &Location{7, top},
			Range{Location{8, 0}, MaxLocation}},
		{"next group", &Filter{Type: FilterRelativeStart}, largest, Range{Location{8, 0}, MaxLocation}},
		{"next group, none published", &Filter{Type: FilterRelativeStart}, nil, Everything},
		{"start", &Filter{Type: FilterAbsoluteStart, Start: Location{2, 1}}, largest,
			Range{Location{2, 1}, MaxLocation}},
		{"range", &Filter{Type: FilterAbsoluteRange, Start: Location{2, 1}, EndGroupDelta: 3}, largest,
			Range{Location{2, 1}, Location{5, top}}},
		{"this group", &Filter{Type: FilterRelativeStart, Groups: 1}, largest, Range{Location{7, 0}, MaxLocation}},
		{"three groups", &Filter{Type: FilterRelativeStart, Groups: 3}, largest, Range{Location{5, 0}, MaxLocation}},
		{"more groups than there are", &Filter{Type: FilterRelativeStart, Groups: 9}, largest, Everything},
		{"all groups", &Filter{Type: FilterRelativeStart, Groups: top}, &Location{top, 0},
			Range{Location{1, 0}, MaxLocation}},
		{"everything", &Filter{}, largest, Everything},
		{"range of objects", &Filter{Type: FilterObjectRange, Start: Location{2, 1}, EndGroupDelta: 3, EndObject: 4},
			largest, Range{Location{2, 1}, Location{5, 4}}},
		{"range of one group", &Filter{Type: FilterAbsoluteRange, Start: Location{2, 1}}, largest,
			Range{Location{2, 1}, Location{2, top}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.filter.Range(tc.largest))
		})
	}
	for _, typ := range []FilterType{FilterLargestObject, FilterRelativeStart} {
		require.True(t, (&Filter{Type: typ}).Range(&MaxLocation).Empty(), "nothing comes after the largest location")
		require.True(t, typ == FilterLargestObject || (&Filter{Type: typ}).Range(&Location{Group: top}).Empty())
	}
}

func TestJoiningRange(t *testing.T) {
	joining := Location{7, 3}
	for _, tc := range []struct {
		typ   FetchType
		start uint64
		want  uint64
	}{
		{FetchRelativeJoining, 0, 7},
		{FetchRelativeJoining, 2, 5},
		{FetchRelativeJoining, 7, 0},
		{FetchRelativeJoining, 8, 0},
		{FetchAbsoluteJoining, 2, 2},
	} {
		fetch := &Fetch{FetchType: tc.typ, JoiningStart: tc.start}
		require.Equal(t, Range{Location{tc.want, 0}, joining}, fetch.JoiningRange(joining))
	}
	require.True(t, (&Fetch{FetchType: FetchAbsoluteJoining, JoiningStart: 8}).JoiningRange(joining).Empty())
}
