package media

import (
	"math/rand/v2"
	"net"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
)

func newTestPath(mtu int) (*path, *ledger) {
	l := &ledger{state: new(claim.ConnState), random: rand.Uint64N}
	l.grow()
	l.setMTU(mtu)
	return &path{ledger: l}, l
}

// A black hole takes large packets and lets small ones pass.
func TestPathBlackHole(t *testing.T) {
	const large, small = 1400, baseMTU
	for _, v := range []struct {
		name   string
		events []int // sizes of packets: lost if negative, otherwise acknowledged
		shrunk bool
	}{
		{"large ones are lost, a small one arrives", append(repeat(-large, blackHole), small), true},
		{"too few are lost", append(repeat(-large, blackHole-1), small), false},
		{"a large one arrives", append(append(repeat(-large, blackHole-1), large, -large), small), false},
		{"a small one is lost too", append(append(repeat(-large, blackHole), -small), small), false},
	} {
		t.Run(v.name, func(t *testing.T) {
			p, l := newTestPath(large)
			shrunk := false
			for _, size := range v.events {
				if size < 0 {
					p.lost(-size)
				} else {
					shrunk = p.acked(size)
				}
			}
			require.Equal(t, v.shrunk, shrunk)
			want := map[bool]int{false: large, true: small}[v.shrunk]
			require.Equal(t, want, l.mtu)
			require.EqualValues(t, want, l.state.MTU.Load())
		})
	}
}

func repeat(size, n int) (all []int) {
	for range n {
		all = append(all, size)
	}
	return all
}

// The forwarder sees no packet size before there is a ledger for its records.
func TestMTUNeedsLedger(t *testing.T) {
	l := &ledger{state: new(claim.ConnState), random: rand.Uint64N}
	l.setMTU(1300)
	require.Zero(t, l.state.MTU.Load())
	require.True(t, l.makeRoom())
	require.EqualValues(t, 1300, l.state.MTU.Load())
	require.Len(t, l.records, firstLedger)
}

// A client that gets another address itself is on another path. Its port stays the same, but for NATs.
func TestOwnAddressChanges(t *testing.T) {
	w, f, _ := burstOf(t, 10)
	resets := func(local string) int {
		addr, err := net.ResolveUDPAddr("udp", local)
		require.NoError(t, err)
		before := f.resets
		w.s.Path(quic.PathInfo{
			Local: addr, Remote: net.UDPAddrFromAddrPort(w.s.path.route.Remote()), MTU: testMTU,
			DestConnID: quic.ConnectionIDFromBytes(w.peer.connID),
		})
		return f.resets - before
	}
	resets("192.0.2.7:4443")
	require.Zero(t, resets("192.0.2.7:4443"))
	require.Equal(t, 1, resets("192.0.2.8:4443"))
}
