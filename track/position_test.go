package track

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What comes after a position stays until it is closed, also if nothing is cached and the segment has ended.
func TestPositionKeepsWhatFollows(t *testing.T) {
	k := newSink(CacheConfig{Duration: -1})
	require.Nil(t, k.track.Position().Largest)
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1)...)))
	p := k.track.Position()
	require.Equal(t, loc(7, 1), *p.Largest)
	require.Len(t, p.Open, 1)

	all := encode(plain, objects(0, 1, 2)...)
	require.NoError(t, feed(s, all[len(encode(plain, objects(0, 1)...)):]))
	require.NoError(t, fin(s))
	require.Empty(t, k.track.Position().Open)
	next, ok := p.Open[0].Next()
	require.True(t, ok)
	require.Equal(t, uint64(2), next)
	o, ok := p.Open[0].Log.Seek(next)
	require.True(t, ok)
	require.Equal(t, object(2).payload, string(readAll(t, p.Open[0].Log, o.PayloadStart)))

	p.Close()
	_, err := p.Open[0].Log.NewReader(o.PayloadStart, nil)
	require.ErrorIs(t, err, ErrDiscarded)
}

func TestNextOfAnOpenSegment(t *testing.T) {
	l := NewLog(0, nil)
	s := OpenSegment{Segment: &Segment{Log: l, First: 2}}
	next := func(end int64) (uint64, bool) {
		s.end = end
		return s.Next()
	}
	id, ok := next(0)
	require.True(t, ok)
	require.Equal(t, uint64(2), id, "the first object is not in the log yet")
	for i, id := range []uint64{2, 3, 7} {
		start := int64(10 * i)
		require.NoError(t, l.AddObject(Object{ID: id, Start: start, PayloadStart: start + 2, End: start + 10}))
	}
	for end, want := range map[int64]uint64{0: 2, 1: 3, 9: 3, 10: 3, 11: 4, 20: 7, 29: 8, 30: 8} {
		id, ok := next(end)
		require.True(t, ok)
		require.Equal(t, want, id, "the log ended at %d", end)
	}
	require.NoError(t, l.AddObject(Object{ID: math.MaxUint64, Start: 30, PayloadStart: 32, End: 40}))
	_, ok = next(35)
	require.False(t, ok)
}
