package media

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newLinuxSocket(t *testing.T, gso bool) (*linuxSocket, *writeStats, *net.UDPConn) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	stats := new(writeStats)
	s, err := newSocket(c, gso, stats)
	require.NoError(t, err)
	return s.(*linuxSocket), stats, c
}

// A train that the system refuses goes packet by packet. Without checksums the kernel refuses to cut.
func TestTrainRefused(t *testing.T) {
	s, stats, c := newLinuxSocket(t, true)
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
	r := newRoute(s, addr, nil, nil)
	b := newBatch(s)
	send := func() {
		for range 3 {
			b.add(r, 1000)
		}
		b.add(r, 500)
		b.flush()
		require.Equal(t, []int{1000, 1000, 1000, 500}, receive(t, to, 4))
	}
	send()
	require.False(t, r.trains, "no more trains on this path")
	require.Equal(t, map[Reason]uint64{WriteNoGSO: 1}, stats.snapshot().Errors)
	send()
	require.Equal(t, map[Reason]uint64{WriteNoGSO: 1}, stats.snapshot().Errors)
	require.True(t, newRoute(s, addr, nil, nil).trains, "other paths may do better")
}

// A train that is refused for another reason says nothing about trains.
func TestTrainLost(t *testing.T) {
	s, stats, _ := newLinuxSocket(t, true)
	r := newRoute(s, netip.MustParseAddrPort("192.0.2.1:9"), nil, nil)
	r.trains = true
	b := newBatch(s)
	b.add(r, 1000)
	b.add(r, 1000)
	b.flush()
	require.True(t, r.trains)
	require.NotZero(t, stats.snapshot().Errors[WriteError])
}

func TestNoGSO(t *testing.T) {
	s, stats, _ := newLinuxSocket(t, false)
	require.False(t, s.trains())
	require.False(t, stats.snapshot().GSO)
}

// The source address that quic-go chose is used.
func TestSourceAddress(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{})
	require.NoError(t, err)
	defer c.Close()
	s, err := newSocket(c, true, new(writeStats))
	require.NoError(t, err)
	to, addr := receiver(t, "udp4", "127.0.0.1:0")
	oob := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte{127, 0, 0, 7}})
	b := newBatch(s)
	b.add(newRoute(s, addr, oob, nil), 100)
	b.add(newRoute(s, addr, oob, nil), 100)
	b.flush()
	for range 2 {
		_, from, err := to.ReadFromUDP(make([]byte, 200))
		require.NoError(t, err)
		require.Equal(t, "127.0.0.7", from.IP.String())
	}
	r := newRoute(s, addr, oob, nil)
	for range 5 {
		b.add(r, 100)
	}
	b.flush()
	for range 5 {
		_, from, err := to.ReadFromUDP(make([]byte, 200))
		require.NoError(t, err)
		require.Equal(t, "127.0.0.7", from.IP.String())
	}
}
