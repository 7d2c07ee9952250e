package track

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// A segment that was cut is reset when no stream goes on with it, and not before.
func TestCutsAreGivenUp(t *testing.T) {
	const grace = 5 * time.Second
	for name, tt := range map[string]struct {
		then  func(k *sink)
		after time.Duration
	}{
		"after the time of grace":             {func(*sink) {}, grace},
		"soon, when a later group comes":      {func(k *sink) { k.object(t, 8) }, stallTimeout},
		"as ever, when an earlier one comes":  {func(k *sink) { k.object(t, 6) }, grace},
		"at once, when the track is closed":   {func(k *sink) { k.track.Close() }, 0},
		"at once, when its group was evicted": {func(k *sink) { k.evictAll() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := newSink(CacheConfig{Grace: grace})
			s := k.source(plain)
			require.NoError(t, feed(s, encode(plain, objects(0, 1)...)))
			require.NoError(t, s.Cut())
			tt.then(k)
			log := k.segments[0].Log
			if tt.after > 0 {
				k.pass(tt.after - 1)
				require.Equal(t, Cut, stateOf(log))
			}
			k.pass(1)
			require.Equal(t, Reset, stateOf(log))
			require.Empty(t, k.cache.cuts)
		})
	}
	k := newSink(CacheConfig{})
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1)...)))
	require.NoError(t, s.Cut())
	require.Equal(t, Reset, stateOf(k.segments[0].Log), "no time of grace")
}

func stateOf(l *Log) State {
	s, _ := l.State()
	return s
}

// object lets a stream with one object of a group arrive.
func (k *sink) object(t *testing.T, group uint64) {
	h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
	s := k.source(h)
	require.NoError(t, feed(s, encode(h, object(0))))
	require.NoError(t, fin(s))
}

func (k *sink) evictAll() {
	for e := k.cache.groups.Front(); e != nil; e = e.Next() {
		g := e.Value.(*group)
		locked((*group).evictUnpinned)(g)
	}
}

// A publisher that comes back after the segment's objects are gone begins another one.
func TestCutAndReleased(t *testing.T) {
	k := newSink(CacheConfig{Grace: time.Minute})
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1)...)))
	require.NoError(t, s.Cut())
	k.evictAll()
	again := k.source(plain)
	require.NoError(t, feed(again, encode(plain, objects(0, 1, 2)...)))
	require.NoError(t, fin(again))
	require.Len(t, k.segments, 2)
	require.Equal(t, Reset, stateOf(k.segments[0].Log))
	require.Equal(t, objects(2), received(t, k.segments[1]))
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

// The first part of a subgroup comes behind the second one, and breaks off before that ends.
func TestFirstPartComesLast(t *testing.T) {
	for name, end := range map[string]func(*Source) error{
		"FIN": fin, "cut": (*Source).Cut, "reset": func(s *Source) error { return s.Close(1) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newSink(CacheConfig{Grace: time.Minute})
			second, first := k.source(plain), k.source(plain)
			require.NoError(t, feed(second, encode(plain, objects(3)...)))
			require.NoError(t, feed(first, encode(plain, objects(0, 1, 2)...)))
			require.NoError(t, first.Cut())
			k.pass(2 * stallTimeout)
			require.NoError(t, feed(second, encode(plain, objects(3, 4)...)[size(plain, object(3)):]))
			require.NoError(t, end(second))
			require.Len(t, k.segments, 2)
			require.Equal(t, objects(3, 4), received(t, k.segments[0]))
			require.Equal(t, objects(0, 1, 2), received(t, k.segments[1]))
			require.Equal(t, Cut, stateOf(k.segments[1].Log))
			k.track.Close()
			require.Zero(t, k.cache.Bytes())
		})
	}
}

// A publisher comes back again and again while another one is active.
func TestBrokenStreamsMakeRoom(t *testing.T) {
	k := newSink(CacheConfig{Grace: time.Minute})
	active := k.source(plain)
	require.NoError(t, feed(active, encode(plain, objects(9)...)))
	for range maxWaiting + 1 {
		s := k.source(plain)
		require.NoError(t, feed(s, encode(plain, objects(0)...)))
		require.NoError(t, s.Cut())
	}
	for range maxWaiting {
		require.NoError(t, feed(k.source(plain), encode(plain, objects(0)...)))
	}
	require.ErrorIs(t, feed(k.source(plain), encode(plain, objects(0)...)), ErrTooManyStreams)
	k.track.Close()
}

// A log tells how much it has of the stream that it began with, and where its last whole object ends.
func TestSevered(t *testing.T) {
	k := newSink(CacheConfig{Grace: time.Minute})
	first := size(plain, object(0))
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1)...)[:first+5]))
	log := k.segments[0].Log
	_, severed := log.Origin().Severed()
	require.False(t, severed)
	require.NoError(t, s.Cut())
	at, severed := log.Origin().Severed()
	require.True(t, severed)
	require.Equal(t, int64(5+first+5), at)
	require.Equal(t, int64(5+first), log.Boundary(log.End()))
	again := k.source(plain)
	require.NoError(t, feed(again, encode(plain, objects(0, 1, 2)...)))
	require.Equal(t, Open, stateOf(log))
	at, _ = log.First.Severed()
	require.Equal(t, int64(5+first+5), at, "what follows is not the first stream's")
	require.Equal(t, log.End(), log.Boundary(log.End()))
}

// Another stream goes on with a log: behind the object that the first one has begun, the log has its bytes, until one
// of its objects is not for the log.
func TestAnotherStreamGoesOn(t *testing.T) {
	k := newSink(CacheConfig{Grace: time.Minute})
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1)...)[:size(plain, object(0))+5]))
	require.NoError(t, s.Cut())
	seg := k.segments[0]
	require.Same(t, &seg.Log.First, seg.Log.Origin())
	const start = 77
	again := k.track.NewSource(SourceConfig{
		Header: plain, Priority: 128, Start: start, Owner: "another", Cancel: func() {},
	})
	// In the second stream object 1 has another delta, and the length of object 2 is not encoded as the relay would.
	b := encode(plain, object(1))
	from := len(b)
	b = append(append(b, 0, 0x80, 12), "payload of 2"...)
	require.NoError(t, feed(again, b))
	require.NoError(t, feed(again, encode(plain, objects(0, 1, 2, 3)...)[size(plain, objects(0, 1, 2)...):]))
	o := seg.Log.Origin()
	require.Equal(t, "another", o.Owner)
	require.Equal(t, int64(start+from), o.From-o.Delta)
	require.Equal(t, b[from:], readAll(t, seg.Log, o.From)[:len(b)-from])
	require.Equal(t, objects(0, 1, 2, 3), received(t, seg))
	_, severed := o.Severed()
	require.False(t, severed)
	end := seg.Log.End()
	k.track.AddAbsent(moqt.Range{Start: moqt.Location{Group: 7, Object: 4}, End: moqt.Location{Group: 7, Object: 4}})
	require.NoError(t, feed(again, encode(plain, objects(0, 1, 2, 3, 4)...)[size(plain, objects(0, 1, 2, 3)...):]))
	at, severed := o.Severed()
	require.True(t, severed)
	require.Equal(t, end, at)
}

// Segments in other forms are cut, and go on, with the segment that they are derived from.
func TestDerivedIsCut(t *testing.T) {
	k := newSink(CacheConfig{Grace: time.Minute})
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1)...)))
	seg, _, release := k.segments[0].Derive(upToID(2))
	defer release()
	r, err := seg.Log.NewReader(0, nil)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, s.Cut())
	require.Equal(t, Cut, stateOf(seg.Log))
	require.Equal(t, objects(0, 1), content(t, seg))
	again := k.source(plain)
	require.NoError(t, feed(again, encode(plain, objects(1, 2, 3)...)))
	require.Equal(t, Open, stateOf(seg.Log))
	require.Equal(t, objects(0, 1, 2), content(t, seg))
	require.NoError(t, fin(again))
	require.Equal(t, Finished, stateOf(seg.Log))
}

// A relay that has lost its source asks the next source for objects that it may have missed.
func TestInterrupted(t *testing.T) {
	k := newSink(CacheConfig{Grace: time.Minute})
	interrupted := func() uint64 { return k.track.Interrupted(2, 9, time.Time{}) }
	for _, group := range []uint64{3, 4, 8, 9} {
		k.object(t, group)
	}
	require.EqualValues(t, 5, interrupted(), "the first between others")
	k.track.AddAbsent(moqt.Range{Start: loc(5, 0), End: loc(5, math.MaxUint64)})
	require.EqualValues(t, 6, interrupted())
	require.EqualValues(t, 7, k.track.Interrupted(7, 9, time.Time{}))
	k.track.AddAbsent(moqt.Range{Start: loc(6, 0), End: loc(7, math.MaxUint64)})
	require.EqualValues(t, 9, interrupted())
	require.EqualValues(t, 10, k.track.Interrupted(10, 9, time.Time{}), "the source's current group is far away")

	h := moqt.SubgroupHeader{GroupID: 4, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1}
	s := k.source(h)
	require.NoError(t, feed(s, encode(h, object(1))))
	require.EqualValues(t, 9, interrupted(), "it is on its way")
	late := k.source(moqt.SubgroupHeader{GroupID: 4, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 2})
	require.NoError(t, feed(late, encode(h, object(3))))
	require.NoError(t, late.Close(uint64(moqt.ResetDeliveryTimeout)))
	require.EqualValues(t, 9, interrupted(), "what follows would be late")
	require.NoError(t, s.Close(1))
	require.EqualValues(t, 4, interrupted())
	again := k.source(h)
	require.NoError(t, feed(again, encode(h, objects(1, 2)...)))
	require.NoError(t, fin(again))
	require.EqualValues(t, 9, interrupted(), "another stream has brought the rest")
	require.EqualValues(t, 3, k.track.Interrupted(2, 9, k.clock.now()), "it has just got an object")
	require.EqualValues(t, 9, k.track.Interrupted(2, 9, k.clock.now().Add(1)))
	k.evictAll()
	require.EqualValues(t, 9, interrupted())
	k.track.Close()
}

// Groups above one that is in use are not forgotten when the cache is full: they would count as missing.
func TestEvictedGroupsAreNotMissing(t *testing.T) {
	k := newSink(CacheConfig{Size: 1})
	defer k.track.Close()
	h := moqt.SubgroupHeader{GroupID: 1}
	s := k.source(h)
	require.NoError(t, feed(s, encode(h, object(0))))
	for group := range uint64(3) {
		k.object(t, 2+group)
	}
	k.cache.Sweep()
	require.EqualValues(t, 5, k.track.Interrupted(1, 5, time.Time{}))
	require.NoError(t, fin(s))
	k.cache.Sweep()
	require.Zero(t, k.cache.Groups())
}
