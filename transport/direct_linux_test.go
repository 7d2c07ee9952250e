package transport

import (
	"bytes"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// TestReceive reads packets of both families, with their control messages, and one that is too long.
func TestReceive(t *testing.T) {
	for _, tt := range []struct {
		network, addr string
		level, option int // makes the kernel send control messages
	}{
		{"udp4", "127.0.0.1:0", unix.IPPROTO_IP, unix.IP_RECVTOS},
		{"udp6", "[::1]:0", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS},
	} {
		t.Run(tt.network, func(t *testing.T) {
			s, peer := newCoalescing(t, tt.network, tt.addr, func() time.Duration { return 0 })
			raw, err := s.(*coalescingSocket).SyscallConn()
			require.NoError(t, err)
			require.NoError(t, raw.Control(func(fd uintptr) {
				require.NoError(t, unix.SetsockoptInt(int(fd), tt.level, tt.option, 1))
			}))
			for _, p := range []string{"a packet", "", "a packet that is too long"} {
				_, err := peer.Write([]byte(p))
				require.NoError(t, err)
			}
			ms := make([]ipv4.Message, 3)
			for i := range ms {
				ms[i].Buffers, ms[i].OOB = [][]byte{make([]byte, 8)}, make([]byte, 64)
			}
			n, err := s.(*coalescingSocket).ReadBatch(ms, 0)
			require.NoError(t, err)
			require.Equal(t, 3, n)
			require.Equal(t, "a packet", string(ms[0].Buffers[0][:ms[0].N]))
			require.Zero(t, ms[1].N)
			require.Equal(t, "a packet", string(ms[2].Buffers[0][:ms[2].N]))
			require.Zero(t, ms[0].Flags&unix.MSG_TRUNC)
			require.NotZero(t, ms[2].Flags&unix.MSG_TRUNC)
			for _, m := range ms {
				require.Equal(t, peer.LocalAddr().String(), m.Addr.String())
				h, _, _, err := unix.ParseOneSocketControlMessage(m.OOB[:m.NN])
				require.NoError(t, err)
				require.EqualValues(t, tt.level, h.Level)
			}
		})
	}
}

// TestAddressesHaveZones translates link-local addresses in both directions.
func TestAddressesHaveZones(t *testing.T) {
	devices, err := net.Interfaces()
	require.NoError(t, err)
	d := devices[0]
	b := inbox{names: []unix.RawSockaddrInet6{{Family: unix.AF_INET6, Scope_id: uint32(d.Index)}}}
	for range 2 { // the second time it is known
		require.Equal(t, d.Name, b.sender(0).(*net.UDPAddr).Zone)
	}
	require.Equal(t, uint32(d.Index), zoneIndex(d.Name))
	require.Zero(t, zoneIndex("no such device"))
	require.Empty(t, b.zone(1<<30))
}

// TestSendWaitsForRoom sends to a receiver that has no room at first.
func TestSendWaitsForRoom(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(fds[1], true)) // so that reads have a deadline
	from, to := os.NewFile(uintptr(fds[0]), "from"), os.NewFile(uintptr(fds[1]), "to")
	defer from.Close()
	defer to.Close()
	require.NoError(t, to.SetReadDeadline(time.Now().Add(time.Minute)))
	waiting := 0
	for unix.Sendto(fds[0], []byte("one of many"), unix.MSG_DONTWAIT, nil) == nil {
		waiting++
	}
	sent := make(chan error, 1)
	go func() { sent <- send(from.Fd(), []byte("the last"), nil, nil) }()
	b := make([]byte, 100)
	for range waiting {
		n, err := to.Read(b)
		require.NoError(t, err)
		require.True(t, bytes.Equal([]byte("one of many"), b[:n]))
	}
	n, err := to.Read(b)
	require.NoError(t, err)
	require.Equal(t, "the last", string(b[:n]))
	require.NoError(t, <-sent)
}
