package claim_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/claim/claimtest"
)

// TestRacingClaims runs several senders, which claim and record, beside a reader, which acknowledges. The race detector
// watches, and the sums must agree.
func TestRacingClaims(t *testing.T) {
	const senders, chunk, end = 4, 100, 100_000
	sc := claimtest.NewScenario(1 << 12)
	sc.Conn.DataLimit.Store(1 << 30)
	var wg sync.WaitGroup
	var sent atomic.Int64
	for range senders {
		wg.Go(func() {
			for {
				next, closed := sc.Stream.Cursor()
				if closed || next >= end {
					return
				}
				if !sc.Conn.Room(sc.Ledger) {
					runtime.Gosched()
					continue
				}
				if sc.Send(end, chunk, true) {
					sent.Add(1)
				}
			}
		})
	}
	var times [end]uint8 // that each byte was sent
	read, low := int64(0), uint64(0)
	look := func() {
		for settled := sc.Conn.Settled(); low < settled; low++ {
			if e, ok := sc.Ledger.Read(low); ok {
				for i := e.Offset; i < e.End(e.Offset); i++ {
					times[i]++
				}
				read++
				sc.Ledger.Mark(e, claim.FlagAcked)
				sc.Conn.InFlight.Add(uint64(-e.Size()))
			}
			sc.Conn.LedgerLow.Store(low + 1)
		}
	}
	for done := false; !done; {
		look()
		next, closed := sc.Stream.Cursor()
		done = closed && next == end
	}
	wg.Wait()
	look()
	require.Equal(t, sent.Load(), read)
	for i, n := range times {
		require.EqualValues(t, 1, n, "byte %d", i)
	}
	require.Zero(t, sc.Conn.InFlight.Load())
	require.Equal(t, uint64(end), sc.Conn.DataSent.Load())
}
