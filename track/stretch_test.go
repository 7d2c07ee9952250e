package track

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func loc(g, o uint64) moqt.Location { return moqt.Location{Group: g, Object: o} }

// walk renders the stretches that At returns for a range.
func walk(t *testing.T, tr *Track, r moqt.Range, notBefore time.Time) string {
	t.Helper()
	var out []string
	for {
		s := tr.At(r, notBefore, nil)
		require.Equal(t, r.Start, s.Range.Start)
		require.False(t, r.End.Less(s.Range.End))
		switch {
		case s.Existence != Present:
			end := fmt.Sprint(s.Range.End.Object)
			if s.Range.End.Object == math.MaxUint64 {
				end = "max"
			}
			out = append(out, fmt.Sprintf("%s %d.%d-%d.%s", [...]string{"unknown", "", "absent"}[s.Existence],
				r.Start.Group, r.Start.Object, s.Range.End.Group, end))
		case s.Datagram != nil:
			out = append(out, fmt.Sprintf("datagram %d.%d", s.Datagram.Group, s.Datagram.ID))
		default:
			require.Equal(t, r.Start.Object, s.Object.ID)
			p := s.Reader.View(s.Object.PayloadStart, int(s.Object.PayloadLen()))
			require.Equal(t, object(s.Object.ID).payload, string(p))
			s.Reader.Close()
			out = append(out, fmt.Sprintf("object %d.%d/%d", s.Segment.Group, s.Object.ID, s.Segment.Subgroup))
		}
		if s.Range.End == r.End {
			return strings.Join(out, ", ")
		}
		r.Start = s.Range.End.Next()
	}
}

func TestMayArrive(t *testing.T) {
	k := newSink(CacheConfig{})
	h := moqt.SubgroupHeader{GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, HasProperties: true}
	s := k.track.NewSource(SourceConfig{Header: h, Cancel: func() {}})
	may := func() (ids []uint64) {
		for id := range uint64(8) {
			if k.track.MayArrive(loc(1, id), false) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	require.Empty(t, may(), "nothing of the group has come")
	b := encode(h, objects(2, 4)...)
	require.NoError(t, feed(s, b))
	require.Equal(t, []uint64{5, 6, 7}, may())
	require.False(t, k.track.MayArrive(loc(2, 9), true))
	k.clock.t = k.clock.t.Add(overtaken)
	require.True(t, k.track.MayArrive(loc(1, 0), true))

	h.SubgroupID = 1
	other := k.track.NewSource(SourceConfig{Header: h, Cancel: func() {}})
	require.NoError(t, feed(other, encode(h, objects(3)...)))
	require.Equal(t, []uint64{4, 5, 6, 7}, may())
	require.NoError(t, fin(other))
	require.Equal(t, []uint64{5, 6, 7}, may())
	require.NoError(t, s.Close(1))
	require.Empty(t, may(), "no stream is left")

	again := k.track.NewSource(SourceConfig{Header: h, Cancel: func() {}})
	require.NoError(t, feed(again, encode(h, objects(3)...)))
	require.Empty(t, may(), "the subgroup has ended")
	require.NoError(t, again.Close(1))
	k.track.Close()
}

// An object may be on its way for a moment when a later one has come, although no stream of its group is left. Most
// holes in groups with datagrams are lost ones.
func TestOvertaken(t *testing.T) {
	k := newSink(CacheConfig{})
	may := func(whole bool) (at []moqt.Location) {
		for _, l := range []moqt.Location{loc(0, 0), loc(1, 1), loc(2, 5), loc(3, 0), loc(3, 2), loc(4, 0)} {
			if k.track.MayArrive(l, whole) {
				at = append(at, l)
			}
		}
		return at
	}
	require.NoError(t, came{group: 1, objects: objects(0), fin: true}.arrive(k))
	require.NoError(t, came{group: 3, subgroup: 1, objects: objects(1), fin: true}.arrive(k))
	require.Equal(t, []moqt.Location{loc(2, 5), loc(3, 0)}, may(true))
	require.Empty(t, may(false), "earlier objects were published before this publisher came")
	k.clock.t = k.clock.t.Add(overtaken)
	require.Empty(t, may(true), "it is too late")
	require.NoError(t, came{group: 3, objects: objects(7), datagram: true}.arrive(k))
	require.NoError(t, came{group: 3, subgroup: 2, objects: objects(5), fin: true}.arrive(k))
	require.Empty(t, may(true))
}

func TestAt(t *testing.T) {
	end := testObject{id: 4, status: moqt.StatusEndOfGroup}
	endOfTrack := testObject{id: 1, status: moqt.StatusEndOfTrack}
	gap := object(8)
	gap.props = gapProps(t, 2, 3)
	tests := []struct {
		name       string
		came       []came
		absent     []moqt.Range
		start, end moqt.Location
		want       string
	}{
		{"nothing", nil, nil, loc(0, 0), loc(3, 5), "unknown 0.0-3.5"},
		{"consecutive objects", []came{{group: 1, objects: objects(0, 1, 2)}}, nil, loc(1, 0), loc(1, 2),
			"object 1.0/0, object 1.1/0, object 1.2/0"},
		{"from and to the middle", []came{{group: 1, objects: objects(0, 1, 2, 3)}}, nil, loc(1, 1), loc(1, 2),
			"object 1.1/0, object 1.2/0"},
		{"subgroups and datagrams in order", []came{
			{group: 1, objects: objects(0, 3)}, {group: 1, subgroup: 1, objects: objects(1, 4)},
			{group: 1, objects: objects(2), datagram: true},
		}, nil, loc(1, 0), loc(1, 4), "object 1.0/0, object 1.1/1, datagram 1.2, object 1.3/0, object 1.4/1"},
		{"gaps about which nothing is known", []came{{group: 1, objects: objects(1, 4)}}, nil, loc(0, 7), loc(2, 3),
			"unknown 0.7-0.max, unknown 1.0-1.0, object 1.1/0, unknown 1.2-1.3, object 1.4/0, " +
				"unknown 1.5-1.max, unknown 2.0-2.3"},
		{"the end of a group", []came{{group: 1, objects: append(objects(3), end)}}, nil, loc(1, 3), loc(2, 0),
			"object 1.3/0, absent 1.4-1.max, unknown 2.0-2.0"},
		{"property gaps", []came{{group: 5, objects: []testObject{gap}}}, nil, loc(2, 0), loc(5, 8),
			"unknown 2.0-2.max, absent 3.0-4.max, unknown 5.0-5.4, absent 5.5-5.7, object 5.8/0"},
		{"the end of the track", []came{{group: 1, objects: []testObject{object(0), endOfTrack}}}, nil,
			loc(1, 0), loc(9, 3), "object 1.0/0, absent 1.1-9.3"},
		{"fetched gaps", []came{{group: 2, objects: objects(0, 5)}},
			[]moqt.Range{{Start: loc(0, 3), End: loc(1, math.MaxUint64)}, {Start: loc(2, 1), End: loc(2, 3)}},
			loc(0, 0), loc(2, 5),
			"unknown 0.0-0.2, absent 0.3-0.max, absent 1.0-1.max, object 2.0/0, absent 2.1-2.3, " +
				"unknown 2.4-2.4, object 2.5/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newSink(CacheConfig{})
			for _, r := range tt.absent {
				k.track.AddAbsent(r)
			}
			for _, c := range tt.came {
				require.NoError(t, c.arrive(k))
			}
			require.Equal(t, tt.want, walk(t, k.track, moqt.Range{Start: tt.start, End: tt.end}, time.Time{}))
		})
	}
}

func TestAtServesWhatIsStillArriving(t *testing.T) {
	k := newSink(CacheConfig{})
	s := k.source(plain)
	b := encode(plain, object(0))
	require.NoError(t, feed(s, b[:4]))
	at := func() Stretch { return k.track.At(moqt.Range{Start: loc(7, 0), End: loc(7, 0)}, time.Time{}, nil) }
	st := at()
	require.Equal(t, Present, st.Existence)
	require.NoError(t, s.Close(0))
	require.Equal(t, Unknown, at().Existence, "the rest will never come")
	st.Reader.Close()
}

func TestAtIgnoresObjectsThatAreTooOld(t *testing.T) {
	k := newSink(CacheConfig{})
	k.track.SetMaxCacheDuration(10 * time.Second)
	h := moqt.SubgroupHeader{GroupID: 1}
	s, b := k.source(h), encode(h, objects(0, 1)...)
	require.NoError(t, feed(s, b[:size(h, object(0))]))
	k.clock.t = k.clock.t.Add(6 * time.Second)
	require.NoError(t, feed(s, b[size(h, object(0)):]))
	r := moqt.Range{Start: loc(1, 0), End: loc(1, 1)}
	require.Equal(t, "object 1.0/0, object 1.1/0", walk(t, k.track, r, k.track.Fresh()))
	k.clock.t = k.clock.t.Add(5 * time.Second)
	require.Equal(t, "unknown 1.0-1.0, object 1.1/0", walk(t, k.track, r, k.track.Fresh()))
}

func TestGroups(t *testing.T) {
	k := newSink(CacheConfig{})
	require.NoError(t, came{group: 5, objects: objects(0)}.arrive(k))
	k.track.AddAbsent(moqt.Range{Start: loc(7, 0), End: loc(8, math.MaxUint64)})
	require.Equal(t, []GroupRun{{2, 4, Unknown}, {5, 5, Present}, {6, 6, Unknown}, {7, 8, Absent}, {9, 12, Unknown}},
		k.track.Groups(2, 12))
	require.Equal(t, []GroupRun{{5, 5, Present}}, k.track.Groups(5, 5))
	require.Equal(t, []GroupRun{{9, math.MaxUint64, Unknown}}, k.track.Groups(9, math.MaxUint64))
}
