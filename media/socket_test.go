package media

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bothSockets runs a test with the portable socket and with the system's own.
func bothSockets(t *testing.T, network string, address *net.UDPAddr, f func(*testing.T, socket, *writeStats, *net.UDPConn)) {
	for _, portable := range []bool{true, false} {
		name := "system"
		if portable {
			name = "portable"
		}
		t.Run(name, func(t *testing.T) {
			c, err := net.ListenUDP(network, address)
			if err != nil {
				t.Skipf("no %s here: %v", network, err)
			}
			defer c.Close()
			stats := new(writeStats)
			var s socket
			if portable {
				s, err = newUDPSocket(c, stats)
			} else {
				s, err = newSocket(c, true, stats)
			}
			require.NoError(t, err)
			f(t, s, stats, c)
		})
	}
}

func receiver(t *testing.T, network, address string) (*net.UDPConn, netip.AddrPort) {
	c, err := net.ListenPacket(network, address)
	if err != nil {
		t.Skipf("no %s here: %v", network, err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.UDPConn), c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func receive(t *testing.T, c *net.UDPConn, n int) (sizes []int) {
	b := make([]byte, 2048)
	for range n {
		k, err := c.Read(b)
		require.NoError(t, err)
		sizes = append(sizes, k)
	}
	return sizes
}

func TestSocket(t *testing.T) {
	bothSockets(t, "udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, func(t *testing.T, s socket, stats *writeStats, _ *net.UDPConn) {
		one, oneAddr := receiver(t, "udp4", "127.0.0.1:0")
		two, twoAddr := receiver(t, "udp4", "127.0.0.1:0")
		r1, r2 := newRoute(s, oneAddr, nil, nil), newRoute(s, twoAddr, nil, nil)
		b := newBatch(s)
		for i := range 20 {
			copy(b.next()[:1200], content(int64(i), 1200))
			b.add(r1, 1200)
		}
		b.add(r1, 100)
		b.add(r2, 300)
		b.add(r1, 400)
		b.flush()
		var want []int
		for range 20 {
			want = append(want, 1200)
		}
		require.Equal(t, append(want, 100, 400), receive(t, one, 22))
		require.Equal(t, []int{300}, receive(t, two, 1))
		st := stats.snapshot()
		require.Equal(t, uint64(23), st.Packets)
		require.Empty(t, st.Errors)
		if s.trains() {
			require.Equal(t, uint64(1), st.Calls)
			require.Equal(t, uint64(3), st.Messages)
		} else {
			require.Equal(t, uint64(23), st.Messages)
		}
	})
}

func TestSocketIPv6(t *testing.T) {
	bothSockets(t, "udp6", &net.UDPAddr{IP: net.IPv6loopback}, func(t *testing.T, s socket, _ *writeStats, _ *net.UDPConn) {
		c, addr := receiver(t, "udp6", "[::1]:0")
		b := newBatch(s)
		b.add(newRoute(s, addr, nil, nil), 50)
		b.flush()
		require.Equal(t, []int{50}, receive(t, c, 1))
	})
}

// A wildcard socket serves both families: IPv4 addresses are mapped.
func TestSocketDualStack(t *testing.T) {
	bothSockets(t, "udp", &net.UDPAddr{}, func(t *testing.T, s socket, _ *writeStats, _ *net.UDPConn) {
		for _, v := range [][2]string{{"udp4", "127.0.0.1:0"}, {"udp6", "[::1]:0"}} {
			c, addr := receiver(t, v[0], v[1])
			b := newBatch(s)
			b.add(newRoute(s, addr, nil, nil), 50)
			b.add(newRoute(s, netip.AddrPortFrom(netip.AddrFrom16(addr.Addr().As16()), addr.Port()), nil, nil), 60)
			b.flush()
			require.Equal(t, []int{50, 60}, receive(t, c, 2))
		}
	})
}

// What the system refuses is counted, and hurts nobody else.
func TestSocketErrors(t *testing.T) {
	bothSockets(t, "udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, func(t *testing.T, s socket, stats *writeStats, c *net.UDPConn) {
		good, addr := receiver(t, "udp4", "127.0.0.1:0")
		r := newRoute(s, addr, nil, nil)
		unreachable := newRoute(s, netip.MustParseAddrPort("192.0.2.1:9"), nil, nil) // not from a loopback address
		big := make([]byte, 70_000)
		s.write([]message{
			{route: r, data: big[:10], segment: 10, count: 1},
			{route: r, data: big, segment: len(big), count: 1},
			{route: unreachable, data: big[:10], segment: 10, count: 1},
			{route: r, data: big[:20], segment: 20, count: 1},
		})
		require.Equal(t, []int{10, 20}, receive(t, good, 2))
		st := stats.snapshot()
		require.Equal(t, uint64(2), st.Packets)
		require.Equal(t, map[Reason]uint64{WriteTooLarge: 1, WriteError: 1}, st.Errors)

		require.NoError(t, c.Close())
		s.write([]message{{route: r, data: big[:10], segment: 10, count: 1}})
		require.Equal(t, uint64(2), stats.snapshot().Errors[WriteError])
	})
}
