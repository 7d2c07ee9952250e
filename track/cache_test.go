package track

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func (k *sink) pass(d time.Duration) {
	k.clock.t = k.clock.t.Add(d)
	k.cache.Sweep()
}

func (k *sink) held(groups ...uint64) (held []uint64) {
	for _, g := range groups {
		st := k.track.At(moqt.Range{Start: loc(g, 0), End: loc(g, 0)}, time.Time{}, nil)
		if st.Existence == Present {
			st.Close()
			held = append(held, g)
		}
	}
	return held
}

func TestGroupsExpire(t *testing.T) {
	k := newSink(CacheConfig{Duration: 10 * time.Second})
	require.NoError(t, came{group: 1, objects: objects(0), fin: true}.arrive(k))
	k.pass(6 * time.Second)
	require.NoError(t, came{group: 2, objects: objects(0), fin: true}.arrive(k))
	// A group is as old as its latest object.
	require.NoError(t, came{group: 1, subgroup: 1, objects: objects(1), fin: true}.arrive(k))
	k.pass(6 * time.Second)
	require.Equal(t, []uint64{1, 2}, k.held(1, 2))
	k.pass(5 * time.Second)
	require.Empty(t, k.held(1, 2))

	k.segments = nil
	require.NoError(t, came{group: 1, objects: objects(0), fin: true}.arrive(k))
	require.Empty(t, k.segments, "it is still known that the object came")
	k.pass(10*time.Second + dedupWindow + time.Second)
	require.True(t, k.track.Idle())
	require.Zero(t, k.cache.Groups())
	require.Zero(t, k.cache.Bytes())
}

func TestMaxCacheDurationEvictsEarlier(t *testing.T) {
	k := newSink(CacheConfig{Duration: 10 * time.Second})
	k.track.SetMaxCacheDuration(2 * time.Second)
	require.NoError(t, came{group: 1, objects: objects(0), fin: true}.arrive(k))
	k.pass(3 * time.Second)
	require.Empty(t, k.held(1))
}

func TestReadersPinTheirGroup(t *testing.T) {
	k := newSink(CacheConfig{Duration: 10 * time.Second})
	require.NoError(t, came{group: 1, objects: objects(0), fin: true}.arrive(k))
	r, err := k.segments[0].Log.NewReader(0, nil)
	require.NoError(t, err)
	k.pass(time.Minute)
	require.Equal(t, []uint64{1}, k.held(1))
	r.Close()
	k.pass(0)
	require.Empty(t, k.held(1))
}

func TestOldestGroupsMakeRoom(t *testing.T) {
	k := newSink(CacheConfig{Size: 1 << 20})
	other := k.cache.NewTrack(nil)
	big := testObject{payload: string(pattern(0, 200_000))}
	late := came{group: 9, objects: []testObject{big}, fin: true}
	require.NoError(t, late.arrive(&sink{cache: k.cache, track: other}))
	for g := range uint64(20) {
		require.NoError(t, came{group: g, objects: []testObject{big}, fin: true}.arrive(k))
		require.LessOrEqual(t, k.cache.Bytes(), int64(1<<20))
	}
	require.Equal(t, []uint64{17, 18, 19}, k.held(0, 14, 15, 16, 17, 18, 19))
	require.Equal(t, Unknown, other.At(moqt.Range{Start: loc(9, 0), End: loc(9, 0)}, time.Time{}, nil).Existence)
	require.Zero(t, k.cache.Over())
}

func TestFloodOfGroups(t *testing.T) {
	k := newSink(CacheConfig{Size: 200_000})
	for g := range uint64(2000) {
		require.NoError(t, came{group: g, objects: objects(0), fin: true}.arrive(k))
		require.LessOrEqual(t, k.cache.Bytes(), int64(202_000), "what is known of groups that are gone counts too")
	}
}

// Nothing keeps a group that is gone, whatever looked at all groups before.
func TestGoneGroupsAreFreed(t *testing.T) {
	for name, look := range map[string]func(*sink){
		"by age":  func(k *sink) { k.cache.Sweep() },
		"by size": func(k *sink) { k.cache.enforce() },
	} {
		t.Run(name, func(t *testing.T) {
			k := newSink(CacheConfig{Size: 1 << 20})
			big := testObject{payload: string(pattern(0, 2<<20))}
			source := k.source(plain)
			bytes := encode(plain, big)
			require.NoError(t, feed(source, bytes[:100]))
			reader, err := k.segments[0].Log.NewReader(k.segments[0].Start, nil) // so the group stays
			require.NoError(t, err)
			require.NoError(t, feed(source, bytes[100:]))
			k.cache.mu.Lock()
			gone := weak.Make(k.cache.groups.Front().Value.(*group))
			k.cache.mu.Unlock()
			require.Positive(t, k.cache.Over())
			look(k)
			reader.Close()
			require.NoError(t, source.Close(0))
			k.track.Close()
			require.Zero(t, k.cache.Groups())
			k.track, k.segments = nil, nil
			runtime.GC()
			require.Nil(t, gone.Value())
			runtime.KeepAlive(k)
		})
	}
}

// TestTrackEndsDuringASweep has a sweep come to an evicted group whose track has ended meanwhile.
func TestTrackEndsDuringASweep(t *testing.T) {
	k := newSink(CacheConfig{})
	require.NoError(t, came{group: 1, objects: objects(0), fin: true}.arrive(k))
	groups := k.cache.snapshotLocked()
	k.evictAll()
	k.track.Close()
	locked((*group).forgetEvicted)(groups[0])
	require.Zero(t, k.cache.Groups())
}

func TestWhatIsWrittenGivesWayLast(t *testing.T) {
	k := newSink(CacheConfig{Size: 1 << 20})
	big := testObject{payload: string(pattern(0, 600_000))}
	require.NoError(t, came{group: 1, objects: []testObject{big}, fin: true}.arrive(k))
	s := k.source(plain) // group 7
	require.NoError(t, feed(s, encode(plain, big)))
	require.Equal(t, []uint64{7}, k.held(1, 7))
	reader, err := k.segments[1].Log.NewReader(k.segments[1].Start, nil)
	require.NoError(t, err)
	s2 := k.track.NewSource(SourceConfig{Header: moqt.SubgroupHeader{GroupID: 8}, Priority: 128})
	require.NoError(t, feed(s2, encode(plain, big)))
	require.NoError(t, feed(s2, []byte{0}))
	require.Positive(t, k.cache.Bytes()-600_000, "a reader keeps group 7")
	require.Less(t, k.cache.Bytes(), int64(1_000_000), "group 8 has no reader")
	reader.Close()
	require.NoError(t, s.Close(0))
	require.NoError(t, s2.Close(0))
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

func TestEndlessSubgroupExpiresFromTheFront(t *testing.T) {
	k := newSink(CacheConfig{Duration: 5 * time.Second})
	s := k.source(plain)
	e := moqt.NewSubgroupEncoder(moqt.DataLayout1, plain)
	for id := range uint64(3000) { // five minutes of audio
		b, err := e.AppendObject(nil, moqt.ObjectHeader{ObjectID: id, PayloadLength: 400})
		require.NoError(t, err)
		require.NoError(t, feed(s, append(b, make([]byte, 400)...)))
		k.pass(100 * time.Millisecond)
		require.Less(t, k.cache.Bytes(), int64(250_000))
	}
	at := func(id uint64) Existence {
		st := k.track.At(moqt.Range{Start: loc(7, id), End: loc(7, id)}, time.Time{}, nil)
		st.Close()
		return st.Existence
	}
	require.Equal(t, []Existence{Unknown, Present, Present}, []Existence{at(0), at(2960), at(2999)})
}

// The cache's count of its memory agrees with the runtime's.
func TestMemoryIsCountedExactly(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the second one empties what the first one left in sync.Pool
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	tests := map[string]struct {
		groups, subgroups, objects uint64
		size                       int
	}{
		"video frames":               {20, 1, 50, 20_000},
		"audio":                      {2000, 1, 5, 300},
		"tiny objects":               {50, 1, 2000, 20},
		"tiny groups":                {10_000, 1, 1, 20},
		"a subgroup for each object": {20, 500, 1, 20},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := newSink(CacheConfig{Size: -1})
			k.track.opened = func(*Segment) {}
			payload := string(pattern(0, tt.size))
			before := heap()
			for g := range tt.groups {
				for s := range tt.subgroups {
					var os []testObject
					for o := range tt.objects {
						os = append(os, testObject{id: s*tt.objects + o, payload: payload})
					}
					require.NoError(t, came{group: g, subgroup: s, objects: os, fin: true}.arrive(k))
				}
			}
			used, counted := heap()-before, k.cache.Bytes()
			n := int64(tt.groups * tt.subgroups * tt.objects)
			t.Logf("%d objects of %d bytes: counted %d, heap %d, %d per object", n, tt.size, counted, used, counted/n)
			require.InEpsilon(t, used, counted, 0.1, fmt.Sprint(used))
			runtime.KeepAlive(k)
		})
	}
}
