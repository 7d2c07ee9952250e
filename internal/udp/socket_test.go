package udp

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var loopback, loopback6 = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.UDPAddr{IP: net.IPv6loopback}

// socketTest tests a socket that sends on a connection.
type socketTest func(t *testing.T, s Socket, counters *Counters, c *net.UDPConn)

// bothSockets runs a test with the portable socket and with the system's own.
func bothSockets(t *testing.T, network string, address *net.UDPAddr, f socketTest) {
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
			counters := new(Counters)
			var s Socket
			if portable {
				s, err = newPortable(c, counters)
			} else {
				s, err = NewSocket(c, true, counters)
			}
			require.NoError(t, err)
			f(t, s, counters, c)
		})
	}
}

func receiver(t *testing.T, network, address string) (*net.UDPConn, netip.AddrPort) {
	c, err := net.ListenPacket(network, address)
	if err != nil {
		t.Skipf("no %s here: %v", network, err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(time.Minute))
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
	bothSockets(t, "udp4", loopback, func(t *testing.T, s Socket, counters *Counters, _ *net.UDPConn) {
		one, oneAddr := receiver(t, "udp4", "127.0.0.1:0")
		two, twoAddr := receiver(t, "udp4", "127.0.0.1:0")
		r1, r2 := NewRoute(s, oneAddr, nil), NewRoute(s, twoAddr, nil)
		b := NewBatch(s)
		for i := range 20 {
			copy(b.Next()[:1200], bytes.Repeat([]byte{byte(i)}, 1200))
			b.Add(r1, 1200)
		}
		b.Add(r1, 100)
		b.Add(r2, 300)
		b.Add(r1, 400)
		b.Flush()
		var want []int
		for range 20 {
			want = append(want, 1200)
		}
		require.Equal(t, append(want, 100, 400), receive(t, one, 22))
		require.Equal(t, []int{300}, receive(t, two, 1))
		st := counters.Counts()
		require.Equal(t, uint64(23), st.Packets)
		require.Empty(t, st.Failures)
		if s.Trains() {
			require.Equal(t, uint64(1), st.Calls)
			require.Equal(t, uint64(3), st.Messages)
		} else {
			require.Equal(t, uint64(23), st.Messages)
		}
	})
}

func TestSocketIPv6(t *testing.T) {
	bothSockets(t, "udp6", loopback6, func(t *testing.T, s Socket, _ *Counters, _ *net.UDPConn) {
		c, addr := receiver(t, "udp6", "[::1]:0")
		b := NewBatch(s)
		b.Add(NewRoute(s, addr, nil), 50)
		b.Flush()
		require.Equal(t, []int{50}, receive(t, c, 1))
	})
}

// A wildcard socket serves both families: IPv4 addresses are mapped.
func TestSocketDualStack(t *testing.T) {
	bothSockets(t, "udp", &net.UDPAddr{}, func(t *testing.T, s Socket, _ *Counters, _ *net.UDPConn) {
		for _, v := range [][2]string{{"udp4", "127.0.0.1:0"}, {"udp6", "[::1]:0"}} {
			c, addr := receiver(t, v[0], v[1])
			b := NewBatch(s)
			b.Add(NewRoute(s, addr, nil), 50)
			b.Add(NewRoute(s, netip.AddrPortFrom(netip.AddrFrom16(addr.Addr().As16()), addr.Port()), nil), 60)
			b.Flush()
			require.Equal(t, []int{50, 60}, receive(t, c, 2))
		}
	})
}

// A message that the system refuses is counted. The others are sent.
func TestSocketErrors(t *testing.T) {
	bothSockets(t, "udp4", loopback, func(t *testing.T, s Socket, counters *Counters, c *net.UDPConn) {
		good, addr := receiver(t, "udp4", "127.0.0.1:0")
		r := NewRoute(s, addr, nil)
		unreachable := NewRoute(s, netip.MustParseAddrPort("192.0.2.1:9"), nil) // not from a loopback address
		big := make([]byte, 70_000)
		s.Write([]Message{
			{Route: r, Data: big[:10], Segment: 10, Count: 1},
			{Route: r, Data: big, Segment: len(big), Count: 1},
			{Route: unreachable, Data: big[:10], Segment: 10, Count: 1},
			{Route: r, Data: big[:20], Segment: 20, Count: 1},
		})
		require.Equal(t, []int{10, 20}, receive(t, good, 2))
		st := counters.Counts()
		require.Equal(t, uint64(2), st.Packets)
		require.Equal(t, map[string]uint64{"write_too_large": 1, "write_error": 1}, st.Failures)

		require.NoError(t, c.Close())
		s.Write([]Message{{Route: r, Data: big[:10], Segment: 10, Count: 1}})
		require.Equal(t, uint64(2), counters.Counts().Failures["write_error"])
	})
}
