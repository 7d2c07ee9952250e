package lab_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/lab/measure"
)

// TestChain sends packets along a chain of two of three relays, and others beside it. Of those that are captured, only
// the packets of the chain count.
func TestChain(t *testing.T) {
	l := labtest.New(t, lab.Topology{Relays: 3, Subscribers: 2})
	chain := l.Chain(2)
	c, err := l.StartCapture(chain.Points()...)
	require.NoError(t, err)
	send := func(from, to *lab.Host) {
		addr := netip.AddrPortFrom(to.Facing(from).IPv6.Addr(), 4443)
		server, err := to.ListenUDP(addr)
		require.NoError(t, err)
		defer server.Close()
		client, err := from.ListenUDP(netip.AddrPort{})
		require.NoError(t, err)
		defer client.Close()
		_, err = client.WriteToUDPAddrPort([]byte("packet"), addr)
		require.NoError(t, err)
		require.NoError(t, server.SetReadDeadline(time.Now().Add(time.Minute)))
		_, _, err = server.ReadFromUDPAddrPort(make([]byte, 64))
		require.NoError(t, err)
	}
	relay, relay2, relay3, sub := l.Relays[0], l.Relays[1], l.Relays[2], l.Subscribers[0]
	for _, way := range []struct{ from, to *lab.Host }{
		{l.Publisher, relay}, {relay, relay2}, {relay2, sub}, // along the chain
		{relay2, relay}, {relay, l.Publisher}, {relay3, relay2}, {relay2, l.Subscribers[1]}, {relay, relay3},
		{l.Publisher, relay2}, {relay, sub},
	} {
		send(way.from, way.to)
	}
	packets, err := c.Stop()
	require.NoError(t, err)
	require.Len(t, packets, 7, "those to relay2 from others, and those from relay to subscribers, pass no point")
	for _, h := range []*lab.Host{relay2, sub} {
		until := chain.Until(packets, h)
		require.Len(t, until, 2, h.Name)
		require.Equal(t, []int{measure.In, measure.Out}, []int{until[0].Point, until[1].Point})
		require.Equal(t, h.Facing(relay2).IPv6.Addr(), until[1].Flow.Target.Addr(), h.Name)
	}
}
