package udp

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newLinuxSocket(t *testing.T, gso bool) (*linuxSocket, *Counters, *net.UDPConn) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	counters := new(Counters)
	s, err := NewSocket(c, gso, counters)
	require.NoError(t, err)
	return s.(*linuxSocket), counters, c
}

// The packets of a train that the system refuses go one by one. Without checksums the kernel does not cut trains.
func TestTrainRefused(t *testing.T) {
	s, counters, c := newLinuxSocket(t, true)
	if !s.gso {
		t.Skip("the kernel has no UDP_SEGMENT")
	}
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
	}))
	require.NoError(t, err)
	to, addr := receiver(t, "udp4", "127.0.0.1:0")
	r := NewRoute(s, addr, nil)
	b := NewBatch(s)
	send := func() {
		for range 3 {
			b.Add(r, 1000)
		}
		b.Add(r, 500)
		b.Flush()
		require.Equal(t, []int{1000, 1000, 1000, 500}, receive(t, to, 4))
	}
	send()
	require.False(t, r.trains, "no more trains on this path")
	require.Equal(t, map[string]uint64{"write_no_gso": 1}, counters.Counts().Failures)
	send()
	require.Equal(t, map[string]uint64{"write_no_gso": 1}, counters.Counts().Failures)
	require.True(t, NewRoute(s, addr, nil).trains, "other paths are not affected")
}

// A train that is refused for another reason does not turn trains off.
func TestTrainLost(t *testing.T) {
	s, counters, _ := newLinuxSocket(t, true)
	r := NewRoute(s, netip.MustParseAddrPort("192.0.2.1:9"), nil)
	r.trains = true
	b := NewBatch(s)
	b.Add(r, 1000)
	b.Add(r, 1000)
	b.Flush()
	require.True(t, r.trains)
	require.NotZero(t, counters.Counts().Failures["write_error"])
}

func TestNoGSO(t *testing.T) {
	s, counters, _ := newLinuxSocket(t, false)
	require.False(t, s.Trains())
	require.False(t, counters.Counts().GSO)
}

// The source address that quic-go chose is used.
func TestSourceAddress(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{})
	require.NoError(t, err)
	defer c.Close()
	s, err := NewSocket(c, true, new(Counters))
	require.NoError(t, err)
	to, addr := receiver(t, "udp4", "127.0.0.1:0")
	oob := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte{127, 0, 0, 7}})
	b := NewBatch(s)
	b.Add(NewRoute(s, addr, oob), 100)
	b.Add(NewRoute(s, addr, oob), 100)
	b.Flush()
	for range 2 {
		_, from, err := to.ReadFromUDP(make([]byte, 200))
		require.NoError(t, err)
		require.Equal(t, "127.0.0.7", from.IP.String())
	}
	r := NewRoute(s, addr, oob)
	for range 5 {
		b.Add(r, 100)
	}
	b.Flush()
	for range 5 {
		_, from, err := to.ReadFromUDP(make([]byte, 200))
		require.NoError(t, err)
		require.Equal(t, "127.0.0.7", from.IP.String())
	}
}

// TestWriteWaitsForRoom sends few messages, and many, to a receiver that has no room at first.
func TestWriteWaitsForRoom(t *testing.T) {
	for _, messages := range []int{fewMessages, 2 * fewMessages} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		from, to := os.NewFile(uintptr(fds[0]), "from"), os.NewFile(uintptr(fds[1]), "to")
		t.Cleanup(func() { from.Close(); to.Close() })
		require.NoError(t, to.SetReadDeadline(time.Now().Add(time.Minute)))
		raw, err := from.SyscallConn()
		require.NoError(t, err)
		counters := new(Counters)
		s := &linuxSocket{
			raw: raw, counters: counters, headers: make([]mmsghdr, maxMessages),
			vectors: make([]unix.Iovec, maxMessages), control: make([][controlBytes]byte, maxMessages),
		}
		filled := 0
		for unix.Sendto(fds[0], []byte("one of many"), unix.MSG_DONTWAIT, nil) == nil {
			filled++
		}
		route := &Route{}
		batch := make([]Message, messages)
		for i := range batch {
			batch[i] = Message{Route: route, Data: []byte{byte(i)}, Segment: 1, Count: 1}
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			s.Write(batch)
		}()
		b := make([]byte, 100)
		for i := range filled + messages {
			n, err := to.Read(b)
			require.NoError(t, err)
			if i >= filled {
				require.Equal(t, batch[i-filled].Data, b[:n])
			}
		}
		<-written
		require.Empty(t, counters.Counts().Failures)
		require.EqualValues(t, messages, counters.Counts().Packets)
	}
}

// Single packets and trains arrive with the mark of their route, whichever families the socket and the address have.
func TestMarked(t *testing.T) {
	for _, c := range []struct{ network, listen, to string }{
		{"udp4", "127.0.0.1:0", "127.0.0.1:0"},
		{"udp", "[::]:0", "127.0.0.1:0"},
		{"udp6", "[::1]:0", "[::1]:0"},
	} {
		t.Run(c.network, func(t *testing.T) {
			from, err := net.ListenPacket(c.network, c.listen)
			if err != nil {
				t.Skip("no IPv6:", err)
			}
			defer from.Close()
			s, err := NewSocket(from, true, new(Counters))
			require.NoError(t, err)
			to, addr := receiver(t, "udp", c.to)
			raw, err := to.SyscallConn()
			require.NoError(t, err)
			require.NoError(t, raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
			}))
			plain := NewRoute(s, addr, nil)
			routes := []*Route{plain, plain.Marked(2), plain, plain.Marked(1)}
			b := NewBatch(s)
			for _, r := range routes {
				for range 3 {
					b.Add(r, 1000)
				}
			}
			b.Flush()
			for _, r := range routes {
				for range 3 {
					require.Equal(t, r.ECN(), receiveECN(t, to))
				}
			}
			require.Zero(t, plain.ECN())
			require.EqualValues(t, 2, routes[1].ECN())
			require.EqualValues(t, 1, routes[3].ECN())
		})
	}
}

// receiveECN returns the ECN bits of a packet's IP header.
func receiveECN(t *testing.T, c *net.UDPConn) byte {
	oob := make([]byte, 200)
	_, n, _, _, err := c.ReadMsgUDP(make([]byte, 2000), oob)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	require.NoError(t, err)
	for _, m := range messages {
		if typ := m.Header.Type; typ == unix.IP_TOS || typ == unix.IPV6_TCLASS {
			return m.Data[0] & 3
		}
	}
	return 0
}
