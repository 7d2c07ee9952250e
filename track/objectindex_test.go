package track

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var epoch = time.UnixMicro(1_700_000_000_000_000)

func TestObjectIndexFindsByIDAndOffset(t *testing.T) {
	const far, wide = 1 << 33, 1 << 32
	tests := map[string][]Object{
		"one": {{ID: 4, Start: 10, IDEnd: 11, PayloadStart: 12, End: 30, Received: epoch}},
		"properties": {
			{ID: 0, Start: 0, IDEnd: 2, PropertiesStart: 3, PropertiesLen: 7, PayloadStart: 11, End: 20,
				Received: epoch},
			{ID: 1, Start: 20, IDEnd: 21, PayloadStart: 23, End: 23, Status: 3, Received: epoch.Add(time.Second)},
		},
		"largest header": {{ID: 0, Start: 5, IDEnd: 14, PropertiesStart: 15, PropertiesLen: maxObjectHeader - 19,
			PayloadStart: 5 + maxObjectHeader, End: 5 + maxObjectHeader, Received: epoch}},
		"ids, offsets and times far apart": {
			{ID: 0, Start: 0, IDEnd: 1, PayloadStart: 3, End: 3 + 1<<40, Received: epoch},
			{ID: far, Start: 3 + 1<<40, IDEnd: 4 + 1<<40, PayloadStart: 5 + 1<<40, End: 9 + 1<<40,
				Received: epoch.Add(24 * time.Hour)},
			{ID: math.MaxUint64, Start: 9 + 1<<40, IDEnd: 10 + 1<<40, PayloadStart: 11 + 1<<40, End: 11 + 1<<40,
				Status: 4, Received: epoch},
		},
		"a number more than a block has room for": { // by offset, by id and by time
			{ID: 0, Start: 0, IDEnd: 1, PayloadStart: 3, End: wide, Received: epoch},
			{ID: 1, Start: wide, IDEnd: wide + 1, PayloadStart: wide + 2, End: wide + 2, Received: epoch},
			{ID: 1 + wide, Start: wide + 2, IDEnd: wide + 3, PayloadStart: wide + 4, End: wide + 4, Received: epoch},
			{ID: 2 + wide, Start: wide + 4, IDEnd: wide + 5, PayloadStart: wide + 6, End: wide + 6,
				Received: epoch.Add(wide * time.Microsecond)},
		},
	}
	for name, objects := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewLog(objects[0].Start, nil)
			for _, o := range objects {
				require.NoError(t, l.AddObject(o))
			}
			checkIndex(t, l, objects)
		})
	}
}

func checkIndex(t *testing.T, l *Log, objects []Object) {
	t.Helper()
	prev := uint64(0)
	for i, want := range objects {
		for _, id := range []uint64{want.ID, prev} {
			got, ok := l.Seek(id)
			require.True(t, ok)
			require.Equal(t, want, got, "object %d", i)
		}
		for _, off := range []int64{want.Start, want.PayloadStart - 1, want.End - 1} {
			got, ok := l.Covering(off)
			require.True(t, ok)
			require.Equal(t, want, got)
		}
		prev = want.ID + 1
	}
	last, ok := l.Last()
	require.True(t, ok)
	require.Equal(t, objects[len(objects)-1], last)
	if prev > 0 {
		_, ok = l.Seek(prev)
		require.False(t, ok)
	}
	_, ok = l.Covering(last.End)
	require.False(t, ok)
	_, ok = l.Covering(l.First.From - 1)
	require.False(t, ok)
}

func TestObjectIndexRefuses(t *testing.T) {
	l := NewLog(0, nil)
	_, ok := l.Seek(0)
	require.False(t, ok)
	require.ErrorIs(t, l.AddObject(Object{PayloadStart: maxObjectHeader + 1, End: maxObjectHeader + 1}),
		ErrHeaderTooLarge)
	require.NoError(t, l.AddObject(Object{ID: 5, PayloadStart: 2, End: 10}))
	require.ErrorIs(t, l.AddObject(Object{ID: 5, Start: 10, PayloadStart: 12, End: 20}), errNotIndexable)
	require.ErrorIs(t, l.AddObject(Object{ID: 6, Start: 11, PayloadStart: 12, End: 20}), errNotIndexable)
}

func TestObjectIndexIsDiscardedWithItsBytes(t *testing.T) {
	const first = 1 << 33
	var mem Memory
	l := NewLog(first, &mem)
	l.Discard(math.MaxInt64)
	for i := range 100_000 {
		start := first + int64(i)*20
		l.Append(pattern(start, 20))
		require.NoError(t, l.AddObject(Object{ID: uint64(i), Start: start, PayloadStart: start + 2, End: start + 20,
			Received: epoch}))
	}
	require.Less(t, mem.Bytes(), int64(3*maxChunk+(3*maxChunk/20+2*blockEntries)*entrySize+1<<12))
	for _, b := range l.objects.blocks {
		require.LessOrEqual(t, len(b.entries), blockEntries)
	}
	_, ok := l.Covering(first)
	require.False(t, ok)
	require.ErrorIs(t, l.AddObject(Object{ID: 3, Start: l.End(), PayloadStart: l.End(), End: l.End()}), errNotIndexable)
	l.Finish()
	require.Zero(t, mem.Bytes())
}

// The first object since a time is found in a block, and behind it.
func TestObjectsSince(t *testing.T) {
	l := NewLog(0, nil)
	at := func(i int) time.Time { return epoch.Add(time.Duration(i) * time.Second) }
	for i, id := range []uint64{0, 1, 1 << 33} {
		start := int64(10 * i)
		o := Object{ID: id, Start: start, PayloadStart: start + 2, End: start + 10, Received: at(i)}
		require.NoError(t, l.AddObject(o))
	}
	for i := range 3 {
		require.EqualValues(t, 10*i, l.objects.receivedSince(at(i)))
	}
}
