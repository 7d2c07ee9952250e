package media

import (
	"sluice/claim"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The kernel's programs see the same bytes.
func TestLayout(t *testing.T) {
	var s claim.ConnState
	require.Equal(t, uintptr(192), unsafe.Sizeof(s))
	require.Equal(t, map[string]uintptr{
		"NextPN": 0, "InFlight": 8, "DataSent": 16, "NextUni": 24, "Writers": 32,
		"Window": 64, "DataLimit": 72, "MaxUni": 80, "LedgerLow": 88, "Threshold": 96, "MTU": 100, "Reserve": 104,
		"Packets": 128, "Bytes": 136,
	}, map[string]uintptr{
		"NextPN": unsafe.Offsetof(s.NextPN), "InFlight": unsafe.Offsetof(s.InFlight), "DataSent": unsafe.Offsetof(s.DataSent),
		"NextUni": unsafe.Offsetof(s.NextUni), "Writers": unsafe.Offsetof(s.Writers),
		"Window": unsafe.Offsetof(s.Window), "DataLimit": unsafe.Offsetof(s.DataLimit), "MaxUni": unsafe.Offsetof(s.MaxUni),
		"LedgerLow": unsafe.Offsetof(s.LedgerLow), "Threshold": unsafe.Offsetof(s.Threshold), "MTU": unsafe.Offsetof(s.MTU),
		"Reserve": unsafe.Offsetof(s.Reserve), "Packets": unsafe.Offsetof(s.Packets), "Bytes": unsafe.Offsetof(s.Bytes),
	})
	var st claim.StreamState
	require.Equal(t, uintptr(64), unsafe.Sizeof(st))
	require.Equal(t, []uintptr{0, 8, 16, 24, 32, 36}, []uintptr{
		unsafe.Offsetof(st.Next), unsafe.Offsetof(st.Delta), unsafe.Offsetof(st.Limit), unsafe.Offsetof(st.ID),
		unsafe.Offsetof(st.Phase), unsafe.Offsetof(st.Level),
	})
	var r claim.Record
	require.Equal(t, uintptr(32), unsafe.Sizeof(r))
	require.Equal(t, []uintptr{0, 8, 16, 24}, []uintptr{
		unsafe.Offsetof(r.PN), unsafe.Offsetof(r.Sent), unsafe.Offsetof(r.Offset), unsafe.Offsetof(r.Info),
	})
}

func TestInfo(t *testing.T) {
	i := claim.NewInfo(0xfedcba98, 1452, 61, claim.KindStream|claim.FlagFIN)
	require.Equal(t, claim.Info(0x083d05acfedcba98), i)
	require.Equal(t, uint32(0xfedcba98), i.Stream())
	require.Equal(t, 1452, i.Length())
	require.Equal(t, 1513, i.Size())
	require.Equal(t, uint8(claim.KindStream), i.Kind())
	require.True(t, i.Has(claim.FlagFIN) && i.Live() && !i.Uncounted())
	require.False(t, i.With(claim.FlagLost).Live())
	require.False(t, i.With(claim.FlagAcked).Live())
	require.True(t, i.With(claim.FlagOldPath).Live() && i.With(claim.FlagOldPath).Uncounted())
	require.Equal(t, int64(1552), i.End(100))
}

func TestLedgerGrows(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) {
		c.sender.NewController = func(int) CongestionController { return &fixedController{window: 8 << 20} }
	})
	w.stream(w.subscribe(), newTestLog(0, 1<<20))
	sent := w.run()
	require.Greater(t, len(sent), 800)
	require.Equal(t, 2048, w.s.Stats().Ledger)
	for range 3 {
		w.ack(time10)
		w.sleep(time.Hour)
	}
	require.Zero(t, w.s.Stats().InFlight)
	require.Zero(t, w.s.Stats().Ledger, "and is given back")
	w.stream(w.subscribe(), newTestLog(0, 100))
	require.Len(t, w.run(), 1)
	require.Equal(t, firstLedger, w.s.Stats().Ledger)
}

// An arena with a small ledger stops the sender, until packets are acknowledged.
func TestLedgerFull(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) {
		c.loop.Memory = fixedArena{}
		c.sender.NewController = func(int) CongestionController { return &fixedController{window: 8 << 20} }
	})
	log := newTestLog(0, 1<<20)
	log.Finish()
	w.stream(w.subscribe(), log)
	require.Len(t, w.run(), firstLedger*3/4)
	require.NotZero(t, w.s.Stats().Reasons[BlockedLedger])
	for w.s.Stats().Open > 0 {
		w.ack(time10)
		w.run()
	}
	require.Len(t, w.peer.bytes(3), 1<<20+6)
}

// fixedArena has ledgers of the smallest size only.
type fixedArena struct{ claim.Heap }

func (fixedArena) Ledger(_ *claim.ConnState, n int) []claim.Record {
	if n > firstLedger {
		return nil
	}
	return make([]claim.Record, n)
}

// Exhausted arenas do not stop anybody.
type emptyArena struct{ claim.Heap }

func (emptyArena) Subscriber() *claim.ConnState { return nil }
func (emptyArena) Stream() *claim.StreamState   { return nil }

func TestArenaExhausted(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.loop.Memory = emptyArena{} })
	w.stream(w.subscribe(), newTestLog(0, 100))
	require.Len(t, w.run(), 1)
}

// Numbers that quic-go takes between the check and the number itself must not overwrite outstanding packets.
func TestBeginKeepsRecords(t *testing.T) {
	var s claim.ConnState
	l := make(claim.Ledger, 8)
	l.Clear()
	require.True(t, s.Room(l))
	n, _, ok := s.Begin(l)
	require.True(t, ok)
	s.Commit(l, n, 1, 0, claim.NewInfo(0, 10, 30, 0))
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
