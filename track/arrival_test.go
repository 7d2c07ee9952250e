package track

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// gapProps encodes Prior Group ID Gap and Prior Object ID Gap.
func gapProps(t *testing.T, group, object uint64) string {
	t.Helper()
	var pairs []moqt.KeyValuePair
	if group > 0 {
		pairs = append(pairs, moqt.KeyValuePair{Type: moqt.PropertyPriorGroupIDGap, Value: group})
	}
	if object > 0 {
		pairs = append(pairs, moqt.KeyValuePair{Type: moqt.PropertyPriorObjectIDGap, Value: object})
	}
	p, err := moqt.NewProperties(pairs...)
	require.NoError(t, err)
	return string(p)
}

// came is a subgroup stream or, with datagram, an object that came.
type came struct {
	group, subgroup uint64
	priority        uint8
	objects         []testObject
	fin, endOfGroup bool
	datagram        bool
}

func (c came) arrive(k *sink) error {
	if c.datagram {
		o := c.objects[0]
		_, err := k.track.AddDatagram(&Datagram{
			Group: c.group, ID: o.id, Priority: c.priority, Status: o.status, EndOfGroup: c.endOfGroup,
			Properties: []byte(o.props), Payload: []byte(o.payload),
		})
		return err
	}
	h := moqt.SubgroupHeader{
		GroupID: c.group, SubgroupID: c.subgroup, SubgroupIDMode: moqt.SubgroupIDPresent,
		EndOfGroup: c.endOfGroup, HasProperties: true,
	}
	s := k.track.NewSource(SourceConfig{Header: h, Priority: c.priority, Cancel: func() {}})
	defer s.Close(0)
	if err := feed(s, encode(h, c.objects...)); err != nil {
		return err
	}
	if c.fin {
		return fin(s)
	}
	return nil
}

func TestMalformedTracks(t *testing.T) {
	end := func(id uint64, s moqt.ObjectStatus) testObject { return testObject{id: id, status: s} }
	gap := func(id, group, object uint64) testObject {
		return testObject{id: id, props: gapProps(t, group, object), payload: "x"}
	}
	immutable := func(v string) testObject {
		p, err := moqt.NewProperties(moqt.KeyValuePair{Type: moqt.PropertyImmutable, Bytes: []byte(v)})
		require.NoError(t, err)
		return testObject{id: 1, props: string(p), payload: "x"}
	}
	other := testObject{id: 1, payload: "another payload"}
	tests := []struct {
		name      string
		malformed bool
		came      []came // the last one is malformed
	}{
		{"publisher priority changes within a subgroup", true,
			[]came{{objects: objects(0)}, {objects: objects(1), priority: 1}}},
		{"publisher priority differs between subgroups", false,
			[]came{{objects: objects(0)}, {objects: objects(1), subgroup: 1, priority: 1}}},
		{"object after the end of its subgroup", true,
			[]came{{objects: objects(0, 1), fin: true}, {objects: objects(1, 2)}}},
		{"late object within its subgroup", false, []came{{objects: objects(0, 2), fin: true}, {objects: objects(1)}}},
		{"two final objects", true, []came{{objects: objects(0, 1), fin: true}, {objects: objects(0), fin: true}}},
		{"final object before one that came", true, []came{{objects: objects(0, 1)}, {objects: objects(0), fin: true}}},
		{"mark behind the end of its subgroup", false,
			[]came{{objects: objects(0, 1), fin: true},
				{objects: []testObject{object(1), end(2, moqt.StatusEndOfGroup)}, fin: true}}},
		{"end of a subgroup before its mark", false,
			[]came{{objects: append(objects(0, 1), end(2, moqt.StatusEndOfGroup)), fin: true},
				{objects: objects(0, 1), fin: true}}},
		{"marks in two subgroups", false,
			[]came{{objects: append(objects(0, 1), end(2, moqt.StatusEndOfGroup)), fin: true},
				{objects: []testObject{end(2, moqt.StatusEndOfGroup)}, subgroup: 1, fin: true}}},
		{"end of a subgroup before its last object", true,
			[]came{{objects: append(objects(0, 1), end(2, moqt.StatusEndOfGroup)), fin: true},
				{objects: objects(0), fin: true}}},
		{"object after the end of its group", true,
			[]came{{objects: []testObject{end(2, moqt.StatusEndOfGroup)}}, {objects: objects(3), subgroup: 1}}},
		{"object at the end of its group", true,
			[]came{{objects: []testObject{end(2, moqt.StatusEndOfGroup)}}, {objects: objects(2), subgroup: 1}}},
		{"end of group before an object", true,
			[]came{{objects: objects(3)}, {objects: []testObject{end(2, moqt.StatusEndOfGroup)}, subgroup: 1}}},
		{"object after END_OF_GROUP and FIN", true,
			[]came{{objects: objects(0, 1), endOfGroup: true, fin: true}, {objects: objects(2), subgroup: 1}}},
		{"object before END_OF_GROUP and FIN", true,
			[]came{{objects: objects(2)}, {objects: objects(0, 1), subgroup: 1, endOfGroup: true, fin: true}}},
		{"END_OF_GROUP without FIN", false,
			[]came{{objects: objects(0, 1), endOfGroup: true}, {objects: objects(2), subgroup: 1}}},
		{"end of group in both forms", false,
			[]came{{objects: objects(0, 1), endOfGroup: true, fin: true},
				{objects: []testObject{end(2, moqt.StatusEndOfGroup)}, subgroup: 1}}},
		{"the same end of group twice", false,
			[]came{{objects: []testObject{object(0), end(1, moqt.StatusEndOfGroup)}},
				{objects: []testObject{object(0), end(1, moqt.StatusEndOfGroup)}}}},
		{"datagram after END_OF_GROUP", true,
			[]came{{objects: objects(1), datagram: true, endOfGroup: true}, {objects: objects(2), datagram: true}}},
		{"datagram after the lower END_OF_GROUP of two", true, []came{
			{objects: objects(5), datagram: true, endOfGroup: true},
			{objects: objects(2), datagram: true, endOfGroup: true}, {objects: objects(4), datagram: true},
		}},
		{"datagram before END_OF_GROUP", false,
			[]came{{objects: objects(1), datagram: true, endOfGroup: true}, {objects: objects(0), datagram: true}}},
		{"object after the end of the track", true,
			[]came{{group: 5, objects: []testObject{end(1, moqt.StatusEndOfTrack)}}, {group: 6, objects: objects(0)}}},
		{"object at the end of the track", true,
			[]came{{group: 5, objects: []testObject{end(1, moqt.StatusEndOfTrack)}},
				{group: 5, subgroup: 1, objects: objects(1)}}},
		{"object before the end of the track", false,
			[]came{{group: 5, objects: []testObject{end(1, moqt.StatusEndOfTrack)}}, {group: 4, objects: objects(9)}}},
		{"the same end of the track twice", false,
			[]came{{group: 5, objects: []testObject{end(1, moqt.StatusEndOfTrack)}},
				{group: 5, objects: []testObject{end(1, moqt.StatusEndOfTrack)}}}},
		{"end of the track before an object", true,
			[]came{{group: 6, objects: objects(0)}, {group: 5, objects: []testObject{end(1, moqt.StatusEndOfTrack)}}}},
		{"different payloads", true, []came{{objects: objects(1)}, {objects: []testObject{other}}}},
		{"different payloads in datagrams", true,
			[]came{{objects: objects(1), datagram: true}, {objects: []testObject{other}, datagram: true}}},
		{"the same payload", false, []came{{objects: objects(1)}, {objects: objects(1)}}},
		{"the same datagram", false, []came{{objects: objects(1), datagram: true},
			{objects: objects(1), datagram: true}}},
		{"different immutable properties", true,
			[]came{{objects: []testObject{immutable("\x02\x01")}}, {objects: []testObject{immutable("\x02\x02")}}}},
		{"different immutable properties of datagrams", true,
			[]came{{objects: []testObject{immutable("\x02\x01")}, datagram: true},
				{objects: []testObject{immutable("\x02\x02")}, datagram: true}}},
		{"different mutable properties", false,
			[]came{{objects: []testObject{gap(3, 0, 1)}}, {objects: []testObject{gap(3, 0, 0)}}}},
		{"different forwarding preferences", true,
			[]came{{objects: objects(1)}, {objects: objects(1), datagram: true}}},
		{"different forwarding preferences, datagram first", true,
			[]came{{objects: objects(1), datagram: true}, {objects: objects(1)}}},
		{"different subgroups", true, []came{{objects: objects(1)}, {objects: objects(1), subgroup: 3}}},
		{"different statuses", true, []came{{objects: []testObject{{id: 1}}},
			{objects: []testObject{end(1, moqt.StatusEndOfGroup)}}}},
		{"different priorities of datagrams", true,
			[]came{{objects: objects(1), datagram: true}, {objects: objects(1), datagram: true, priority: 3}}},
		{"object in a prior object id gap", true,
			[]came{{objects: []testObject{gap(5, 0, 2)}}, {objects: objects(4), subgroup: 1}}},
		{"prior object id gap over an object", true,
			[]came{{objects: objects(4)}, {objects: []testObject{gap(5, 0, 2)}, subgroup: 1}}},
		{"prior object id gap beside objects", false,
			[]came{{objects: objects(2, 6)}, {objects: []testObject{gap(5, 0, 2)}, subgroup: 1}}},
		{"group in a prior group id gap", true,
			[]came{{group: 5, objects: []testObject{gap(0, 2, 0)}}, {group: 3, objects: objects(0)}}},
		{"prior group id gap over an object", true,
			[]came{{group: 3, objects: objects(0)}, {group: 5, objects: []testObject{gap(0, 2, 0)}}}},
		{"prior group id gap beside groups", false,
			[]came{{group: 2, objects: objects(0)}, {group: 5, objects: []testObject{gap(0, 2, 0)}}}},
		{"prior gaps of all that is before", false,
			[]came{{group: 2, objects: []testObject{gap(2, 2, 2)}}, {group: 2, objects: []testObject{gap(3, 2, 0)}}}},
		{"prior group id gap of more", true, []came{{group: 2, objects: []testObject{gap(2, 3, 0)}}}},
		{"prior object id gap of more", true,
			[]came{{objects: objects(9)}, {objects: []testObject{gap(2, 0, 3)}, subgroup: 1}}},
		{"two prior group id gaps in a group", true,
			[]came{{group: 5, objects: []testObject{gap(0, 2, 0)}},
				{group: 5, subgroup: 1, objects: []testObject{gap(1, 1, 0)}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newSink(CacheConfig{})
			for i, c := range tt.came {
				err := c.arrive(k)
				if i < len(tt.came)-1 || !tt.malformed {
					require.NoError(t, err)
					continue
				}
				var malformed *moqt.MalformedTrackError
				require.ErrorAs(t, err, &malformed)
			}
			k.track.Close()
			require.Zero(t, k.cache.Bytes())
		})
	}
}

// No object follows the last id, and no group the last one.
func TestEndsAtTheLastLocation(t *testing.T) {
	k := newSink(CacheConfig{})
	last := []testObject{object(math.MaxUint64)}
	require.NoError(t, came{group: 1, objects: last, datagram: true, endOfGroup: true}.arrive(k))
	require.NoError(t, came{group: 1, objects: objects(5), datagram: true}.arrive(k))
	k.track.AddEnd(loc(math.MaxUint64, 3))
	require.Equal(t, []GroupRun{{0, 0, Unknown}}, k.track.Groups(0, 0))
}

func TestObjectsThatDoNotExistAreNotForwarded(t *testing.T) {
	k := newSink(CacheConfig{})
	k.track.AddAbsent(moqt.Range{Start: moqt.Location{Group: 3, Object: 2}, End: moqt.Location{Group: 3, Object: 3}})
	k.track.AddAbsent(moqt.Range{Start: moqt.Location{Group: 8}, End: moqt.Location{Group: 9, Object: math.MaxUint64}})
	require.NoError(t, came{group: 3, objects: objects(1, 2, 3, 4)}.arrive(k))
	require.NoError(t, came{group: 9, objects: objects(0)}.arrive(k))
	forward, err := k.track.AddDatagram(&Datagram{Group: 8})
	require.NoError(t, err)
	require.False(t, forward)
	require.Len(t, k.segments, 2)
	require.Equal(t, objects(1), received(t, k.segments[0]))
	require.Equal(t, objects(4), received(t, k.segments[1]))
}

func TestLargest(t *testing.T) {
	k := newSink(CacheConfig{})
	require.Nil(t, k.track.Largest())
	k.track.RaiseLargest(moqt.Location{Group: 4, Object: 2})
	require.NoError(t, came{group: 3, objects: objects(9)}.arrive(k))
	require.Equal(t, moqt.Location{Group: 4, Object: 2}, *k.track.Largest())
	require.NoError(t, came{group: 4, objects: objects(3)}.arrive(k))
	k.track.RaiseLargest(moqt.Location{Group: 4, Object: 1})
	require.Equal(t, moqt.Location{Group: 4, Object: 3}, *k.track.Largest())
	require.NoError(t, came{group: 5, subgroup: 2, objects: objects(0), endOfGroup: true, fin: true}.arrive(k))
	require.Equal(t, EndMark{Subgroup: 2}, *k.track.EndMark())
	require.NoError(t, came{group: 6, objects: []testObject{{id: 1, status: moqt.StatusEndOfGroup}}}.arrive(k))
	require.Equal(t, EndMark{Status: true}, *k.track.EndMark())
}
