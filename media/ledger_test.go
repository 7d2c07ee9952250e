package media

import (
	"sluice/claim"
	"sluice/congestion"
	"testing"

	"github.com/stretchr/testify/require"
)

// A memory with a small ledger stops the sender, until packets are acknowledged.
func TestLedgerFull(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) {
		c.loop.Memory = fixedMemory{}
		c.sender.NewController = func(int) congestion.Controller { return &fixedController{window: 8 << 20} }
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

// fixedMemory has ledgers of the smallest size only.
type fixedMemory struct{ claim.Heap }

func (fixedMemory) Ledger(_ *claim.ConnState, n int) []claim.Record {
	if n > firstLedger {
		return nil
	}
	return make([]claim.Record, n)
}

// emptyMemory has no room for any connection.
type emptyMemory struct{ claim.Heap }

func (emptyMemory) NewConn() *claim.ConnState     { return nil }
func (emptyMemory) NewStream() *claim.StreamState { return nil }

func TestMemoryExhausted(t *testing.T) {
	w := newWorld(t, func(c *worldConfig) { c.loop.Memory = emptyMemory{} })
	w.stream(w.subscribe(), newTestLog(0, 100))
	require.Len(t, w.run(), 1)
}
