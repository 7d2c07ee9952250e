package claim

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The kernel's programs see the same bytes.
func TestLayout(t *testing.T) {
	var s ConnState
	require.Equal(t, uintptr(192), unsafe.Sizeof(s))
	require.Equal(t, map[string]uintptr{
		"NextPN": 0, "InFlight": 8, "DataSent": 16, "NextUni": 24, "Writers": 32, "Slots": 36,
		"BucketAt": 40,
		"Window":   64, "DataLimit": 72, "MaxUni": 80, "LedgerLow": 88, "Threshold": 96, "MTU": 100, "Reserve": 104,
		"Bounds": 112, "BucketCost": 120, "BucketBurst": 124,
		"Packets": 128, "Bytes": 136, "LimitedTo": 144,
		"ECN": 152, "PaceCost": 156, "PaceBurst": 160, "PacedAt": 48,
	}, map[string]uintptr{
		"NextPN":      unsafe.Offsetof(s.NextPN),
		"InFlight":    unsafe.Offsetof(s.InFlight),
		"DataSent":    unsafe.Offsetof(s.DataSent),
		"NextUni":     unsafe.Offsetof(s.NextUni),
		"Writers":     unsafe.Offsetof(s.Writers),
		"Slots":       unsafe.Offsetof(s.Slots),
		"Window":      unsafe.Offsetof(s.Window),
		"DataLimit":   unsafe.Offsetof(s.DataLimit),
		"MaxUni":      unsafe.Offsetof(s.MaxUni),
		"LedgerLow":   unsafe.Offsetof(s.LedgerLow),
		"Threshold":   unsafe.Offsetof(s.Threshold),
		"MTU":         unsafe.Offsetof(s.MTU),
		"Reserve":     unsafe.Offsetof(s.Reserve),
		"Packets":     unsafe.Offsetof(s.Packets),
		"Bytes":       unsafe.Offsetof(s.Bytes),
		"LimitedTo":   unsafe.Offsetof(s.LimitedTo),
		"BucketAt":    unsafe.Offsetof(s.BucketAt),
		"Bounds":      unsafe.Offsetof(s.Bounds),
		"BucketCost":  unsafe.Offsetof(s.BucketCost),
		"BucketBurst": unsafe.Offsetof(s.BucketBurst),
		"ECN":         unsafe.Offsetof(s.ECN),
		"PaceCost":    unsafe.Offsetof(s.PaceCost),
		"PaceBurst":   unsafe.Offsetof(s.PaceBurst),
		"PacedAt":     unsafe.Offsetof(s.PacedAt),
	})
	var st StreamState
	require.Equal(t, uintptr(64), unsafe.Sizeof(st))
	require.Equal(t, []uintptr{0, 8, 16, 24, 32, 36, 40}, []uintptr{
		unsafe.Offsetof(st.Next), unsafe.Offsetof(st.Delta), unsafe.Offsetof(st.Limit), unsafe.Offsetof(st.ID),
		unsafe.Offsetof(st.Phase), unsafe.Offsetof(st.Level), unsafe.Offsetof(st.Alias),
	})
	var r Record
	require.Equal(t, uintptr(32), unsafe.Sizeof(r))
	require.Equal(t, []uintptr{0, 8, 16, 24}, []uintptr{
		unsafe.Offsetof(r.PN), unsafe.Offsetof(r.Sent), unsafe.Offsetof(r.Offset), unsafe.Offsetof(r.Info),
	})
}

func TestInfo(t *testing.T) {
	i := NewInfo(0xfedcba98, 1452, 61, KindStream|FlagFIN)
	require.Equal(t, Info(0x083d05acfedcba98), i)
	require.Equal(t, uint32(0xfedcba98), i.Stream())
	require.Equal(t, 1452, i.Length())
	require.Equal(t, 1513, i.Size())
	require.Equal(t, uint8(KindStream), i.Kind())
	require.True(t, i.Has(FlagFIN) && i.Live() && !i.Uncounted())
	require.False(t, i.With(FlagLost).Live())
	require.False(t, i.With(FlagAcked).Live())
	require.True(t, i.With(FlagOldPath).Live() && i.With(FlagOldPath).Uncounted())
	require.Equal(t, int64(1552), i.End(100))
}

// Numbers that quic-go takes between the check and the number itself must not overwrite outstanding packets.
func TestBeginKeepsRecords(t *testing.T) {
	var s ConnState
	l := make(Ledger, 8)
	l.Clear()
	require.True(t, s.Room(l))
	n, _, ok := s.Begin(l)
	require.True(t, ok)
	s.Commit(l, n, 1, 0, NewInfo(0, 10, 30, 0))
	s.NextPN.Add(5)
	require.False(t, s.Room(l))
	s.NextPN.Add(2)
	_, _, ok = s.Begin(l)
	require.False(t, ok)
	require.Zero(t, s.Writers.Load())
	s.LedgerLow.Store(2)
	_, _, ok = s.Begin(l)
	require.True(t, ok)
}

// TestMoveTo gives every word of a state another value.
func TestMoveTo(t *testing.T) {
	var from, to ConnState
	words := func(s *ConnState) (all []any) {
		v := reflect.ValueOf(s).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" {
				all = append(all, v.Field(i).Addr().Interface())
			}
		}
		return all
	}
	n := uint64(0)
	for _, w := range words(&from) {
		n++
		switch w := w.(type) {
		case *Word:
			w.Store(n)
		case *Word32:
			w.Store(uint32(n))
		}
	}
	from.Writers.Store(0) // of senders that have come too late
	from.MoveTo(&to)
	require.Equal(t, to.NextPN.Load()|NumbersClosed, from.NextPN.Load())
	from.NextPN.Store(to.NextPN.Load())
	require.Equal(t, words(&from), words(&to))
}

// A number that is taken from a state that has moved is not used.
func TestNumbersAreClosed(t *testing.T) {
	var from, to ConnState
	l := make(Ledger, 8)
	l.Clear()
	from.NextPN.Store(3<<GenerationShift | 5)
	from.MoveTo(&to)
	_, ok := from.TakeNumber()
	require.False(t, ok)
	_, _, ok = from.Begin(l)
	require.False(t, ok)
	require.Zero(t, from.Writers.Load())
	n, ok := to.TakeNumber()
	require.True(t, ok)
	require.EqualValues(t, 5, n)
	n, generation, ok := to.Begin(l)
	require.True(t, ok)
	require.Equal(t, []uint64{6, 3}, []uint64{n, generation})
}
