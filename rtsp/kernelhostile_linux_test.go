package rtsp

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/stretchr/testify/require"

	"sluice/lab"
)

// TestKernelOtherDestination asks for packets to another host. The kernel sends them to the client that asks.
func TestKernelOtherDestination(t *testing.T) {
	t.Parallel()
	w := newKernelWorld(t, lab.Topology{Subscribers: 2})
	pub := w.publish(false)
	client, other := w.lab.Subscribers[0], w.lab.Subscribers[1]
	listen := func(h *lab.Host) *net.UDPConn {
		c, err := h.ListenUDP(netip.MustParseAddrPort("0.0.0.0:9000"))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	own, victim := listen(client), listen(other)
	var conn net.Conn
	url := w.url(client, false)
	require.NoError(t, client.Do(func() (err error) {
		conn, err = net.Dial("tcp", url.Host)
		return err
	}))
	c := newRaw(t, conn)
	res := c.ask("SETUP", url.String()+"/trackID=0", "Transport: RTP/AVP;unicast;destination="+
		other.Facing(w.lab.Relay).IPv4.Addr().String()+";client_port=9000-9001")
	require.Equal(t, base.StatusOK, res.StatusCode)
	id, _, _ := strings.Cut(res.Header["Session"][0], ";")
	require.Equal(t, base.StatusOK, c.ask("PLAY", url.String(), "Session: "+id).StatusCode)
	eventually(t, "the kernel sends", func() bool {
		w.frame(pub)
		return w.byKernel() >= 10
	})
	buf := make([]byte, 2000)
	require.NoError(t, own.SetReadDeadline(time.Now().Add(patient)))
	for range pub.number {
		_, _, err := own.ReadFrom(buf)
		require.NoError(t, err)
	}
	from, err := w.lab.Relay.ListenUDP(netip.MustParseAddrPort("0.0.0.0:0"))
	require.NoError(t, err)
	defer from.Close()
	to := netip.AddrPortFrom(other.Facing(w.lab.Relay).IPv4.Addr(), 9000)
	hasNothing(t, victim, func(b []byte) (int, error) { return from.WriteToUDPAddrPort(b, to) })
}
