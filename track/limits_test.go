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

// stalled opens a stream that brings the first half of object 0 of a group, and is the active one of its subgroup.
func (k *sink) stalled(t *testing.T, group uint64) *Source {
	s := k.source(moqt.SubgroupHeader{GroupID: group})
	require.NoError(t, feed(s, encode(plain, object(0))[:8]))
	return s
}

// ahead sends object 0 of a group and another object of some size on a stream with FIN.
func (k *sink) ahead(group uint64, size int) error {
	s := k.source(moqt.SubgroupHeader{GroupID: group})
	err := feed(s, encode(plain, object(0), testObject{id: 1, payload: string(make([]byte, size))}))
	if err == nil {
		err = fin(s)
	}
	if err != nil {
		_ = s.Close(0)
	}
	return err
}

func TestStreamsThatWaitAreCountedAndLimited(t *testing.T) {
	k := newSink(CacheConfig{Size: -1})
	active := k.stalled(t, 0)
	before := k.cache.Bytes()
	for range maxWaiting {
		require.NoError(t, k.ahead(0, 1))
	}
	require.GreaterOrEqual(t, k.cache.Bytes()-before, int64(maxWaiting*waitingSize))
	full := k.cache.Bytes()
	for range 1000 {
		require.ErrorIs(t, k.ahead(0, 1), ErrTooManyStreams)
	}
	require.Equal(t, full, k.cache.Bytes(), "streams that are refused leave nothing")
	require.NoError(t, active.Close(0))
	require.Equal(t, []testObject{object(0), {id: 1, payload: "\x00"}}, received(t, k.segments[0]), "one took over")
	require.NoError(t, k.ahead(0, 1), "others have gone")
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

func TestBytesThatWaitAreLimitedForATrack(t *testing.T) {
	k := newSink(CacheConfig{Size: -1})
	var active []*Source
	refused := uint64(0)
	const size = maxAhead / 8
	for group := uint64(0); refused == 0 && group < 20; group++ {
		active = append(active, k.stalled(t, group))
		if err := k.ahead(group, size); err != nil {
			require.ErrorIs(t, err, ErrTooFarAhead)
			refused = group
		}
	}
	require.Equal(t, uint64(7), refused, "with the fields before it, the eighth is too much")
	require.Less(t, k.cache.Bytes(), int64(2*maxAhead))
	require.NoError(t, active[0].Close(0))
	require.NoError(t, k.ahead(refused, size), "the first one does not wait any more")
	for _, s := range active {
		require.NoError(t, s.Close(0))
	}
	require.Zero(t, k.track.ahead.Load())
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

func TestStreamsThatWaitMakeRoom(t *testing.T) {
	const size = 1 << 20
	k := newSink(CacheConfig{Size: size})
	var active []*Source
	for group := range uint64(20) {
		active = append(active, k.stalled(t, group))
		require.NoError(t, k.ahead(group, size/8))
		require.Zero(t, k.cache.Over())
	}
	cancelled := false
	open := k.track.NewSource(SourceConfig{Priority: 128, Cancel: func() { cancelled = true }})
	require.ErrorIs(t, feed(open, encode(plain, object(0), testObject{id: 1, payload: string(make([]byte, 3*size))})),
		ErrTooFarAhead)
	require.True(t, cancelled, "its stream may have nothing to read")
	require.NoError(t, open.Close(0))
	require.Zero(t, k.cache.Over())
	for group, s := range active {
		require.NoError(t, feed(s, encode(plain, object(0))[8:]), "the active streams go on")
		require.NoError(t, s.Close(0))
		require.Equal(t, object(0), received(t, k.segments[group])[0])
	}
	require.Zero(t, k.track.ahead.Load())
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

// sparse opens a stream of group 7 that brings n objects with every second id.
func (k *sink) sparse(t *testing.T, n uint64) *Source {
	s, e := k.source(plain), moqt.NewSubgroupEncoder(moqt.DataLayout1, plain)
	for id := range n {
		b, err := e.AppendObject(nil, moqt.ObjectHeader{ObjectID: 2 * id, PayloadLength: 1})
		require.NoError(t, err)
		require.NoError(t, feed(s, append(b, 'x')))
	}
	return s
}

func TestIDsThatNeverMerge(t *testing.T) {
	k := newSink(CacheConfig{Size: -1})
	require.NoError(t, k.sparse(t, maxRuns).Close(0))
	require.Zero(t, k.cache.Trims())
	k.track.Close()
	k = newSink(CacheConfig{Size: -1})
	const n = 3 * maxRuns
	s := k.sparse(t, n)
	g := k.track.index.group(7)
	require.LessOrEqual(t, len(g.seen), maxRuns)
	require.Positive(t, k.cache.Trims())
	require.Len(t, received(t, k.segments[0]), n, "all were forwarded")
	forwarded := func(id uint64, payload string) bool {
		before := len(k.segments)
		os := []testObject{{id: id, payload: payload}}
		require.NoError(t, came{group: 7, subgroup: 1 + id, objects: os}.arrive(k))
		return len(k.segments) > before
	}
	require.True(t, forwarded(2*n-3, "late"))
	require.False(t, forwarded(2*n-3, "late"))
	require.False(t, forwarded(1, "much too late"), "it counts as seen")
	require.NoError(t, s.Close(0))
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

func TestGapsAreLimited(t *testing.T) {
	k := newSink(CacheConfig{Size: -1})
	const n = 3 * maxRuns
	add := func(group, id, groupGap, objectGap uint64) {
		_, err := k.track.AddDatagram(&Datagram{
			Group: group, ID: id, Properties: []byte(gapProps(t, groupGap, objectGap)), Payload: []byte("x"),
		})
		require.NoError(t, err)
	}
	for id := range uint64(n) {
		add(0, 2*id+1, 0, 1)
	}
	g := k.track.index.group(0)
	require.LessOrEqual(t, len(g.gaps), maxRuns)
	require.LessOrEqual(t, len(g.absent), maxRuns)
	require.GreaterOrEqual(t, g.counted, int64(len(g.seen)+len(g.gaps)+len(g.absent))*spanSize)
	at := func(id uint64) Existence {
		return k.track.At(moqt.Range{Start: loc(0, id), End: loc(0, id)}, time.Time{}, nil).Existence
	}
	require.Equal(t, []Existence{Unknown, Absent}, []Existence{at(0), at(2*n - 2)})

	before := k.cache.Bytes()
	for group := range uint64(n) {
		k.track.AddAbsent(moqt.Range{Start: loc(3*group+1, 0), End: loc(3*group+2, math.MaxUint64)})
	}
	require.LessOrEqual(t, len(k.track.index.absent), maxRuns)
	require.GreaterOrEqual(t, k.cache.Bytes()-before, int64(maxRuns/2*spanSize), "the sets of the track count")
	k.track.Close()
	require.Zero(t, k.cache.Bytes())

	k.track = k.cache.NewTrack(nil)
	for group := range uint64(n) {
		add(2*group+2, 0, 1, 0)
	}
	require.LessOrEqual(t, len(k.track.index.gaps), maxRuns)
	require.LessOrEqual(t, len(k.track.index.absent), maxRuns)
	k.track.AddEnd(loc(2*n, 1))
	after := moqt.Range{Start: loc(2*n+1, 0), End: loc(2*n+9, 0)}
	require.Equal(t, Absent, k.track.At(after, time.Time{}, nil).Existence)
	k.track.Close()
	k.track.AddEnd(loc(2*n, 0))
	require.Zero(t, k.cache.Bytes())
}

func TestKnowledgeOfOpenGroupsMakesRoom(t *testing.T) {
	k := newSink(CacheConfig{Size: 1 << 20})
	for range 20 {
		s := k.sparse(t, maxRuns-1)
		defer s.Close(0)
		require.Zero(t, k.cache.Over())
		k.track = k.cache.NewTrack(nil)
	}
}

// One stream keeps the group open, while others bring objects with a subgroup each.
func TestSubgroupsAndSegmentsAreLimited(t *testing.T) {
	k := newSink(CacheConfig{Size: -1})
	open := k.stalled(t, 7)
	const n = 3 * maxSegments
	for id := uint64(1); id <= n; id++ {
		require.NoError(t, came{group: 7, subgroup: id, objects: objects(id), fin: true}.arrive(k))
	}
	g := k.track.index.group(7)
	require.LessOrEqual(t, len(g.segments), maxSegments)
	require.LessOrEqual(t, len(g.subgroups), maxSubgroups)
	require.GreaterOrEqual(t, min(len(g.segments), len(g.subgroups)), maxSegments/2)
	require.NotNil(t, g.subgroups.find(0), "a stream brings it")
	require.NotNil(t, g.subgroups.find(n))
	at := func(id uint64) Existence {
		st := k.track.At(moqt.Range{Start: loc(7, id), End: loc(7, id)}, time.Time{}, nil)
		st.Close()
		return st.Existence
	}
	require.Equal(t, []Existence{Present, Unknown, Present}, []Existence{at(0), at(1), at(n)})
	forwarded := len(k.segments)
	require.NoError(t, came{group: 7, subgroup: 1, objects: objects(1), fin: true}.arrive(k))
	require.Len(t, k.segments, forwarded, "it is known that the object came")
	require.NoError(t, open.Close(0))
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

func TestGroupsThatAreWrittenMakeRoom(t *testing.T) {
	k := newSink(CacheConfig{Size: 1 << 20})
	open := k.stalled(t, 7)
	for id := uint64(1); id <= 4000; id++ {
		os := []testObject{{id: id, payload: "small"}}
		require.NoError(t, came{group: 7, subgroup: id, objects: os, fin: true}.arrive(k))
		require.Zero(t, k.cache.Over())
		os[0] = testObject{id: 10_000 + id, payload: string(pattern(0, 1000))}
		require.NoError(t, came{group: 7, objects: os, datagram: true}.arrive(k))
		require.Zero(t, k.cache.Over())
	}
	require.NoError(t, open.Close(0))
}

func TestDatagramsAreLimited(t *testing.T) {
	k := newSink(CacheConfig{Size: -1})
	_, err := k.track.AddDatagram(&Datagram{Properties: make([]byte, 100), Payload: make([]byte, 1000)})
	require.NoError(t, err)
	require.Greater(t, k.cache.Bytes(), int64(1100))
	const n = 2*maxDatagrams + 1
	for id := range uint64(n) {
		forward, err := k.track.AddDatagram(&Datagram{Group: 1, ID: id, Payload: []byte("x")})
		require.NoError(t, err)
		require.True(t, forward)
	}
	require.LessOrEqual(t, len(k.track.index.group(1).datagrams), maxDatagrams)
	require.GreaterOrEqual(t, len(k.track.index.group(1).datagrams), maxDatagrams/2)
	require.Equal(t, fmt.Sprintf("datagram 1.%d", n-1),
		walk(t, k.track, moqt.Range{Start: loc(1, n-1), End: loc(1, n-1)}, time.Time{}))
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

func TestGroupsAreLimited(t *testing.T) {
	k := newSink(CacheConfig{Size: -1})
	s := k.source(moqt.SubgroupHeader{GroupID: 3})
	require.NoError(t, feed(s, encode(plain, object(0))))
	for _, descending := range []bool{false, true} {
		for i := range uint64(maxGroups + 10) {
			group := 1_000_000 + i
			if descending {
				group = 1_000_000 - i
			}
			_, err := k.track.AddDatagram(&Datagram{Group: group, Payload: []byte("x")})
			require.NoError(t, err)
			require.NotNil(t, k.track.index.group(group))
			require.LessOrEqual(t, k.cache.Groups(), maxGroups)
		}
		require.GreaterOrEqual(t, k.cache.Groups(), maxGroups*7/8)
	}
	require.Equal(t, []uint64{3}, k.held(3), "a stream brings it")
	require.NoError(t, s.Close(0))
	k.track.Close()
	require.Zero(t, k.cache.Groups())
	require.Zero(t, k.cache.Bytes())
}

func TestSegmentsOfAFetchAreLimited(t *testing.T) {
	k := newSink(CacheConfig{})
	f := k.track.NewFetchWriter()
	var want []string
	for id := range uint64(3 * maxFetched) {
		subgroup := id % (2 * maxFetched)
		p := object(id).payload
		length := uint64(len(p))
		o := moqt.FetchObject{Location: loc(1, id), SubgroupID: subgroup, PayloadLength: length}
		require.NoError(t, f.Begin(&o, false))
		require.NoError(t, f.Write([]byte(p)))
		require.LessOrEqual(t, len(f.segments), maxFetched)
		want = append(want, fmt.Sprintf("object 1.%d/%d", id, subgroup))
	}
	f.Close()
	require.Equal(t, strings.Join(want, ", "),
		walk(t, k.track, moqt.Range{Start: loc(1, 0), End: loc(1, 3*maxFetched-1)}, time.Time{}))
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}
