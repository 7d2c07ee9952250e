package media

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/congestion"
)

// A ledger that is full, and that the forwarder shares, stops the sender until packets are acknowledged.
func TestLedgerFull(t *testing.T) {
	w, f := withForwarder(t, func(c *worldConfig) {
		c.sender.NewController = func(int) congestion.Controller { return &fixedController{window: 8 << 20} }
	})
	log := newTestLog(0, 1<<20)
	log.Finish()
	w.stream(w.subscribe(), log)
	require.Len(t, w.run(), len(f.ring)*3/4)
	require.NotZero(t, w.s.Stats().Reasons[BlockedLedger])
	for w.s.Stats().Open > 0 {
		w.ack(time10)
		w.run()
	}
	require.Len(t, w.peer.bytes(3), 1<<20+6)
}
