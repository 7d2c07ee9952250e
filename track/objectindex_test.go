package track

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var epoch = time.UnixMicro(1_700_000_000_000_000)

func TestObjectIndexFindsByIDAndOffset(t *testing.T) {
	far := uint64(1) << 33
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
	var mem Memory
	l := NewLog(0, &mem)
	l.Discard(math.MaxInt64)
	for i := range 100_000 {
		l.Append(pattern(int64(i)*20, 20))
		start := int64(i) * 20
		require.NoError(t, l.AddObject(Object{ID: uint64(i), Start: start, PayloadStart: start + 2, End: start + 20,
			Received: epoch}))
	}
	require.Less(t, mem.Bytes(), int64(3*maxChunk+(3*maxChunk/20+2*blockEntries)*entrySize+1<<12))
	_, ok := l.Covering(0)
	require.False(t, ok)
	require.ErrorIs(t, l.AddObject(Object{ID: 3, Start: 2_000_000, PayloadStart: 2_000_001, End: 2_000_001}),
		errNotIndexable)
	l.Finish()
	require.Zero(t, mem.Bytes())
}
