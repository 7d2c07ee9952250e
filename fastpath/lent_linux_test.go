package fastpath

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf/bpftest"
)

// TestMemoryFollowsConnections makes many connections at once, and closes them, twice.
func TestMemoryFollowsConnections(t *testing.T) {
	const connections = 5 * reserve
	f, err := New(Settings{Port: relayPort, MaxConnections: connections + reserve}, slog.New(slog.DiscardHandler))
	bpftest.RequireKernel(t, err)
	defer f.Close()
	awaitLent := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return lentBy(t, f.kernel.ingress.Ledgers) == n }, time.Minute,
			time.Millisecond)
	}
	awaitLent(reserve)
	for range 2 {
		conns := make([]claim.ForwarderConn, connections)
		var all sync.WaitGroup
		for i := range conns {
			all.Go(func() { conns[i], _ = f.Connect(func(*claim.StreamState) {}) })
		}
		all.Wait()
		awaitLent(connections + reserve)
		for i, c := range conns {
			require.NotNil(t, c)
			ring := c.Ledger()
			require.Len(t, ring, claim.LedgerLen)
			ring[claim.LedgerLen-1].PN.Store(uint64(i))
		}
		for i, c := range conns {
			require.EqualValues(t, i, c.Ledger()[claim.LedgerLen-1].PN.Load(), "a ledger of its own")
			c.Close()
		}
		awaitLent(2 * reserve)
	}
}

// lentBy counts the elements of an array of maps.
func lentBy(t *testing.T, m *ebpf.Map) (n int) {
	var id uint32
	for i := range m.MaxEntries() {
		if err := m.Lookup(i, &id); err == nil {
			n++
		} else {
			require.ErrorIs(t, err, ebpf.ErrKeyNotExist)
		}
	}
	return n
}
