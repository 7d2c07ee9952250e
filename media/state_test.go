package media

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The kernel's programs see the same bytes.
func TestLayout(t *testing.T) {
	var s SubscriberState
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
	var st StreamState
	require.Equal(t, uintptr(64), unsafe.Sizeof(st))
	require.Equal(t, []uintptr{0, 8, 16, 24, 32, 36}, []uintptr{
		unsafe.Offsetof(st.Next), unsafe.Offsetof(st.Delta), unsafe.Offsetof(st.Limit), unsafe.Offsetof(st.ID),
		unsafe.Offsetof(st.State), unsafe.Offsetof(st.Level),
	})
	var r Record
	require.Equal(t, uintptr(32), unsafe.Sizeof(r))
	require.Equal(t, []uintptr{0, 8, 16, 24}, []uintptr{
		unsafe.Offsetof(r.PN), unsafe.Offsetof(r.Sent), unsafe.Offsetof(r.Offset), unsafe.Offsetof(r.Info),
	})
}

func TestInfo(t *testing.T) {
	i := newInfo(0xfedcba98, 1452, 61, kindStream|flagFIN)
	require.Equal(t, info(0x083d05acfedcba98), i)
	require.Equal(t, uint32(0xfedcba98), i.stream())
	require.Equal(t, 1452, i.length())
	require.Equal(t, 1513, i.size())
	require.Equal(t, uint8(kindStream), i.kind())
	require.True(t, i.has(flagFIN) && i.live() && !i.uncounted())
	require.False(t, i.with(flagLost).live())
	require.False(t, i.with(flagAcked).live())
	require.True(t, i.with(flagOldPath).live() && i.with(flagOldPath).uncounted())
	require.Equal(t, int64(1552), i.end(100))
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
		c.loop.Arena = fixedArena{}
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
type fixedArena struct{ memory }

func (fixedArena) Ledger(_ *SubscriberState, n int) []Record {
	if n > firstLedger {
		return nil
	}
	return make([]Record, n)
}

// Exhausted arenas do not stop anybody.
type emptyArena struct{ memory }

func (emptyArena) Subscriber() *SubscriberState { return nil }
func (emptyArena) Stream() *StreamState         { return nil }

func TestArenaExhausted(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.loop.Arena = emptyArena{} })
	w.stream(w.subscribe(), newTestLog(0, 100))
	require.Len(t, w.run(), 1)
}

// Numbers that quic-go takes between the check and the number itself must not overwrite outstanding packets.
func TestBeginKeepsRecords(t *testing.T) {
	var s SubscriberState
	l := make(ledger, 8)
	l.clear()
	require.True(t, s.room(l))
	n, _, ok := s.begin(l)
	require.True(t, ok)
	s.commit(l, n, 1, 0, newInfo(0, 10, 30, 0))
	s.NextPN.Add(5)
	require.False(t, s.room(l))
	s.NextPN.Add(2)
	_, _, ok = s.begin(l)
	require.False(t, ok)
	require.Zero(t, s.Writers.Load())
	s.LedgerLow.Store(2)
	_, _, ok = s.begin(l)
	require.True(t, ok)
}
