package lab_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
)

// send sends count distinct datagrams of a size from one host to a port of another, paced.
func send(t testing.TB, from *lab.Host, to netip.AddrPort, count, size int, pace time.Duration) {
	t.Helper()
	conn, err := from.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	defer conn.Close()
	payload := make([]byte, size)
	for i := range count {
		binary.BigEndian.PutUint64(payload, uint64(i))
		_, err := conn.WriteToUDPAddrPort(payload, to)
		require.NoError(t, err)
		if pace > 0 {
			time.Sleep(pace)
		}
	}
}

func TestWireX(t *testing.T) {
	for _, delay := range []time.Duration{0, 1 * time.Millisecond, 20 * time.Millisecond} {
		for _, pace := range []time.Duration{0, 500 * time.Microsecond} {
			l := labtest.New(t, lab.Topology{Subscribers: 1})
			sub := l.Subscribers[0]
			d := sub.Devices[0]
			require.NoError(t, d.Link.Set(lab.ToHost, lab.Conditions{Delay: delay}))
			c, err := l.StartCapture(lab.Point{l.Relay.Device("down"), lab.FromHost}, lab.Point{d, lab.ToHost})
			require.NoError(t, err)
			send(t, l.Relay, netip.AddrPortFrom(d.IPv4.Addr(), 9), 1000, 1000, pace)
			time.Sleep(100 * time.Millisecond)
			p, err := c.Stop()
			require.NoError(t, err)
			ds, lost := lab.DatagramDelays(p, 0, 1)
			t.Log(delay, pace, lost, ds)
		}
	}
}
