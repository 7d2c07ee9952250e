package transport

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

func newCoalescing(t testing.TB, network, addr string, delay func() time.Duration) (UDPConn, *net.UDPConn) {
	t.Helper()
	local, err := net.ResolveUDPAddr(network, addr)
	require.NoError(t, err)
	c, err := net.ListenUDP(network, local)
	require.NoError(t, err)
	s, err := coalesce(c, delay)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	peer, err := net.DialUDP("udp", nil, s.LocalAddr().(*net.UDPAddr))
	require.NoError(t, err)
	t.Cleanup(func() { peer.Close() })
	return s, peer
}

// readBatch reads at most 8 waiting packets.
func readBatch(t *testing.T, s UDPConn) (packets []string) {
	t.Helper()
	ms := make([]ipv4.Message, 8)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, 100)}
	}
	n, err := s.(*coalescingSocket).ReadBatch(ms, 0)
	require.NoError(t, err)
	for _, m := range ms[:n] {
		packets = append(packets, string(m.Buffers[0][:m.N]))
	}
	return packets
}

// TestPacketsWaitForOthers sends packets while the socket lets them gather, and others while nobody waits for it.
func TestPacketsWaitForOthers(t *testing.T) {
	var gather []string
	var peer *net.UDPConn
	send := func(p string) {
		_, err := peer.Write([]byte(p))
		require.NoError(t, err)
	}
	s, peer := newCoalescing(t, "udp", "[::1]:0", func() time.Duration {
		for _, p := range gather {
			send(p)
		}
		gather = nil
		return time.Millisecond
	})
	send("first") // the socket has not been seen empty
	require.Equal(t, []string{"first"}, readBatch(t, s))
	gather = []string{"third", "fourth"}
	send("second")
	require.Equal(t, []string{"second", "third", "fourth"}, readBatch(t, s))

	many := slices.Repeat([]string{"one of many"}, 20)
	gather = many[1:]
	send(many[0])
	var got []string
	for len(got) < len(many) {
		got = append(got, readBatch(t, s)...)
	}
	require.Equal(t, many, got)

	for range 100 { // armed again after each
		time.AfterFunc(3*time.Millisecond, func() { send("late") })
		require.Equal(t, []string{"late"}, readBatch(t, s))
	}
}

// TestReadsEnd ends waiting reads, and reads of a socket on which packets never cease.
func TestReadsEnd(t *testing.T) {
	for name, end := range map[string]struct {
		how  func(UDPConn) error
		want error
	}{
		"deadline": {func(s UDPConn) error { return s.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		"close":    {UDPConn.Close, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newCoalescing(t, "udp4", "127.0.0.1:0", func() time.Duration { return 0 })
			waiting := make(chan error)
			go func() {
				_, _, err := s.ReadFrom(make([]byte, 100))
				waiting <- err
			}()
			time.Sleep(10 * time.Millisecond) // so that it usually waits; it has to end in either case
			require.NoError(t, end.how(s))
			require.ErrorIs(t, <-waiting, end.want)
		})
	}
	s, peer := newCoalescing(t, "udp4", "127.0.0.1:0", func() time.Duration { return 0 })
	require.NoError(t, s.SetReadDeadline(time.Now()))
	_, err := peer.Write([]byte("unread"))
	require.NoError(t, err)
	_, _, err = s.ReadFrom(make([]byte, 100))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, s.SetReadDeadline(time.Time{}))
	n, from, err := s.ReadFrom(make([]byte, 100))
	require.NoError(t, err)
	require.Equal(t, len("unread"), n)
	require.Equal(t, peer.LocalAddr().String(), from.String())
}

// TestCoalescingSocketWrites sends from sockets of each family.
func TestCoalescingSocketWrites(t *testing.T) {
	for _, tt := range []struct{ network, addr, peer string }{
		{"udp4", "127.0.0.1:0", "127.0.0.1:0"},
		{"udp", "[::1]:0", "[::1]:0"},
		{"udp", "[::]:0", "127.0.0.1:0"},
	} {
		t.Run(tt.addr+" to "+tt.peer, func(t *testing.T) {
			s, _ := newCoalescing(t, tt.network, tt.addr, func() time.Duration { return 0 })
			require.NoError(t, s.(quic.OOBCapablePacketConn).SetReadBuffer(1<<16))
			peer, err := net.ListenPacket("udp", tt.peer)
			require.NoError(t, err)
			defer peer.Close()
			n, err := s.WriteTo([]byte("hello"), peer.LocalAddr())
			require.NoError(t, err)
			require.Equal(t, 5, n)
			b := make([]byte, 100)
			n, from, err := peer.ReadFrom(b)
			require.NoError(t, err)
			require.Equal(t, "hello", string(b[:n]))
			require.Equal(t, s.LocalAddr().(*net.UDPAddr).Port, from.(*net.UDPAddr).Port)

			_, err = s.WriteTo([]byte("nowhere"), &net.UDPAddr{IP: peer.LocalAddr().(*net.UDPAddr).IP})
			require.ErrorContains(t, err, "sendmsg")
			_, err = s.WriteTo(nil, &net.TCPAddr{})
			require.Error(t, err)
		})
	}
}

// BenchmarkWakes measures the cost of a packet that wakes the reader, in CPU time of sender and reader: with a reader
// that the scheduler of Go runs anywhere, and with one that is bound to a CPU.
func BenchmarkWakes(b *testing.B) {
	for _, bound := range []bool{false, true} {
		b.Run(fmt.Sprintf("bound=%t", bound), func(b *testing.B) { benchmarkWakes(b, bound) })
	}
}

func benchmarkWakes(b *testing.B, bound bool) {
	s, peer := newCoalescing(b, "udp4", "127.0.0.1:0", func() time.Duration { return 0 })
	read := make(chan struct{})
	go func() {
		defer close(read)
		if bound {
			bindThread(b)
		}
		packet := make([]byte, 100)
		for {
			if _, _, err := s.(*coalescingSocket).ReadFrom(packet); err != nil {
				return
			}
		}
	}()
	var before, after unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &before))
	for b.Loop() {
		_, err := peer.Write([]byte("a packet"))
		require.NoError(b, err)
		time.Sleep(100 * time.Microsecond) // the reader sleeps again
	}
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &after))
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
	require.NoError(b, s.Close())
	<-read
}

// bindThread binds the goroutine to a thread, which ends with it, and that to CPU 0.
func bindThread(b *testing.B) {
	runtime.LockOSThread()
	var zero unix.CPUSet
	zero.Set(0)
	if err := unix.SchedSetaffinity(0, &zero); err != nil {
		b.Error(err)
	}
}
