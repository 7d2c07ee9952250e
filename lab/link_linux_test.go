package lab_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab"
	"sluice/lab/labtest"
)

// listen opens a socket whose buffer takes all that a test sends, and returns its address.
func listen(t testing.TB, h *lab.Host, local netip.Addr) (*net.UDPConn, netip.AddrPort) {
	t.Helper()
	conn, err := h.ListenUDP(netip.AddrPortFrom(local, 4443))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	}))
	return conn, netip.AddrPortFrom(local, 4443)
}

// send sends datagrams that carry the numbers first to first+count-1.
func send(t testing.TB, from *lab.Host, to netip.AddrPort, first, count, size int) {
	t.Helper()
	conn, err := from.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	defer conn.Close()
	payload := make([]byte, size)
	for i := range count {
		binary.BigEndian.PutUint64(payload, uint64(first+i))
		_, err := conn.WriteToUDPAddrPort(payload, to)
		require.NoError(t, err)
	}
}

// receive reads count datagrams and returns their numbers.
func receive(t testing.TB, conn *net.UDPConn, count int) (numbers []int) {
	t.Helper()
	buffer := make([]byte, 2048)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	for len(numbers) < count {
		n, err := conn.Read(buffer)
		require.NoError(t, err, "after %d of %d datagrams", len(numbers), count)
		require.GreaterOrEqual(t, n, 8)
		numbers = append(numbers, int(binary.BigEndian.Uint64(buffer)))
	}
	return numbers
}

// requireSame compares long sequences without printing them whole.
func requireSame(t testing.TB, want, got []int) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if want[i] != got[i] {
			near := func(s []int) []int { return s[max(0, i-3):min(len(s), i+10)] }
			require.Equal(t, near(want), near(got), "from position %d", i)
		}
	}
}

func stats(t testing.TB, k *lab.Link, d lab.Direction) lab.LinkStats {
	t.Helper()
	s, err := k.Stats(d)
	require.NoError(t, err)
	require.Zero(t, s.Failed)
	return s
}

// The seed exactly determines which packets are lost, which come twice, and in which order they come.
func TestConditionsAreExact(t *testing.T) {
	const count, chunk = 4000, 200 // a chunk fits the kernel's queues even if nothing drains them meanwhile
	for name, c := range map[string]lab.Conditions{
		"clean":             {},
		"loss":              {Loss: 0.02},
		"loss of all":       {Loss: 1},
		"duplicates":        {Duplicate: 0.05},
		"all twice":         {Duplicate: 1},
		"loss and twice":    {Loss: 0.1, Duplicate: 0.1},
		"reordering":        {Reorder: 0.01},
		"much reordering":   {Reorder: 0.2, ReorderGap: 1},
		"delay and all":     {Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, ReorderGap: 5, Delay: 20 * time.Millisecond},
		"delay and one gap": {Delay: 5 * time.Millisecond, Reorder: 0.001, ReorderGap: 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := labtest.New(t, lab.Topology{Subscribers: 1, Seed: 42})
			link := l.Subscribers[0].Devices[0].Link
			for _, way := range []struct {
				direction lab.Direction
				from, to  *lab.Host
				addr      netip.Addr
			}{
				{lab.ToHost, l.Relay, l.Subscribers[0], l.Subscribers[0].Devices[0].IPv4.Addr()},
				{lab.FromHost, l.Subscribers[0], l.Relay, l.Relay.Device("down").IPv6.Addr()},
			} {
				c.Hold = time.Second // however slow the machine is, packets overtake
				require.NoError(t, link.Set(way.direction, c))
				conn, addr := listen(t, way.to, way.addr)
				want := link.Predict(way.direction, 0, count)
				var got []int
				for sent := 0; sent < count; {
					send(t, way.from, addr, sent, chunk, 200)
					sent += chunk
					settled := link.Predict(way.direction, 0, sent)
					got = append(got, receive(t, conn, len(settled.Arrived)-settled.Waiting-len(got))...)
				}
				got = append(got, receive(t, conn, want.Waiting)...)
				requireSame(t, want.Arrived, got)

				s := stats(t, link, way.direction)
				require.EqualValues(t, count, s.Packets)
				require.Equal(t, want.Lost, s.Lost)
				require.Equal(t, want.Duplicated, s.Duplicated)
				require.Equal(t, want.Reordered, s.Reordered)
				if c.Delay > 0 || c.Reorder > 0 {
					require.EqualValues(t, len(want.Arrived), s.Returned)
				} else {
					require.Zero(t, s.Delayed)
				}
			}
		})
	}
}

// The predicted numbers agree with the probabilities, within four standard deviations, and differ by direction and by
// seed.
func TestConditionsAreFair(t *testing.T) {
	const count = 100_000
	seen := make(map[uint64]bool)
	for seed := uint64(1); seed <= 3; seed++ {
		l := labtest.New(t, lab.Topology{Subscribers: 1, Seed: seed})
		for _, h := range []*lab.Host{l.Publisher, l.Subscribers[0]} {
			for _, d := range []lab.Direction{lab.ToHost, lab.FromHost} {
				link := h.Devices[0].Link
				require.NoError(t, link.Set(d, lab.Conditions{Loss: 0.02, Duplicate: 0.1, Reorder: 0.5}))
				f := link.Predict(d, 0, count)
				require.InDelta(t, 0.02*count, float64(f.Lost), 4*44.3)
				require.InDelta(t, 0.1*float64(count-f.Lost), float64(f.Duplicated), 4*93.9)
				require.InDelta(t, 0.5*float64(count-f.Lost), float64(f.Reordered), 4*156.5)
				require.False(t, seen[f.Lost<<32|f.Reordered], "the same sequence twice")
				seen[f.Lost<<32|f.Reordered] = true
			}
		}
	}
}

func TestConditionsChangeWhileRunning(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 2})
	link := l.Subscribers[0].Devices[0].Link
	conn, addr := listen(t, l.Subscribers[0], l.Subscribers[0].Devices[0].IPv4.Addr())
	neighbour, neighbourAddr := listen(t, l.Subscribers[1], l.Subscribers[1].Devices[0].IPv4.Addr())
	sent := 0
	step := func(c lab.Conditions, arrive bool) {
		require.NoError(t, link.Set(lab.ToHost, c))
		send(t, l.Relay, addr, sent, 100, 1200)
		send(t, l.Relay, neighbourAddr, sent, 100, 1200)
		if arrive {
			require.Equal(t, sent, receive(t, conn, 100)[0])
		}
		require.Equal(t, sent, receive(t, neighbour, 100)[0], "a neighbour notices nothing")
		sent += 100
	}
	step(lab.Conditions{}, true)
	step(lab.Conditions{Loss: 1}, false)
	step(lab.Conditions{Delay: 5 * time.Millisecond}, true)
	step(lab.Conditions{Delay: 5 * time.Millisecond, Loss: 1}, false)
	step(lab.Conditions{Rate: 20e6, Queue: time.Second}, true)
	step(lab.Conditions{Rate: 100e6, Delay: time.Millisecond, Queue: time.Second}, true)
	step(lab.Conditions{}, true)
	s := stats(t, link, lab.ToHost)
	require.EqualValues(t, sent, s.Packets)
	require.EqualValues(t, 200, s.Lost)
}

// A rate is a queue in front of the device: packets that do not fit are dropped and counted. The kernel is asked for
// the rate that it keeps; how long packets took is not looked at.
func TestRate(t *testing.T) {
	const count, size = 300, 958 // 1,000 bytes of frame
	for _, d := range []lab.Direction{lab.ToHost, lab.FromHost} {
		l := labtest.New(t, lab.Topology{Subscribers: 1})
		from, to, device := l.Relay, l.Subscribers[0], l.Subscribers[0].Devices[0]
		addr := device.IPv4.Addr()
		if d == lab.FromHost {
			from, to, addr = to, from, l.Relay.Device("down").IPv4.Addr()
		}
		conn, target := listen(t, to, addr)
		require.Zero(t, device.Link.KernelRate(t, d))
		require.NoError(t, device.Link.Set(d, lab.Conditions{Rate: 8e6, Queue: time.Second}))
		require.EqualValues(t, 8e6, device.Link.KernelRate(t, d))
		send(t, from, target, 0, count, size)
		require.Len(t, receive(t, conn, count), count)
		require.Zero(t, stats(t, device.Link, d).QueueDrops)

		// The slowest rate sends no second packet while the test fills the queue, which has room for few frames.
		require.NoError(t, device.Link.Set(d, lab.Conditions{Rate: lab.MinRate, Queue: time.Second}))
		send(t, from, target, 0, count, size)
		s := stats(t, device.Link, d)
		require.Positive(t, s.QueueDrops)
		require.Less(t, s.QueueDrops, uint64(count))
		require.NoError(t, device.Link.Set(d, lab.Conditions{}))
		require.Zero(t, device.Link.KernelRate(t, d))
		require.Zero(t, stats(t, device.Link, d).QueueDrops)
	}
}

func TestLinkDownAndUp(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	sub := l.Subscribers[0]
	exchange(t, sub, l.Relay, l.Relay.Device("down").IPv4.Addr())
	require.NoError(t, sub.Devices[0].Link.SetUp(false))
	require.NoError(t, sub.Do(func() error {
		iface, err := net.InterfaceByName("eth0")
		require.NoError(t, err)
		require.Zero(t, iface.Flags&net.FlagRunning, "no carrier")
		return nil
	}))
	before := stats(t, sub.Devices[0].Link, lab.FromHost).Packets
	send(t, sub, netip.AddrPortFrom(l.Relay.Device("down").IPv4.Addr(), 9), 0, 10, 100)
	require.Equal(t, before, stats(t, sub.Devices[0].Link, lab.FromHost).Packets)
	require.NoError(t, sub.Devices[0].Link.SetUp(true))
	exchange(t, sub, l.Relay, l.Relay.Device("down").IPv4.Addr())
}

// A sender that hands the kernel many datagrams at once puts them on the link one by one, or as one if devices cut them
// as network cards do. The receiver gets them one by one either way.
func TestSegmentation(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	device := l.Subscribers[0].Devices[0]
	conn, addr := listen(t, l.Subscribers[0], device.IPv4.Addr())
	for _, c := range []struct {
		byDevices bool
		onLink    uint64
	}{{false, 40}, {true, 1}, {false, 40}} {
		require.NoError(t, l.SetSegmentation(c.byDevices))
		before := stats(t, device.Link, lab.ToHost).Packets
		require.NoError(t, l.Relay.Do(func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000))
			return unix.Sendto(fd, make([]byte, 40_000), 0,
				&unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()})
		}))
		receive(t, conn, 40)
		require.Equal(t, c.onLink, stats(t, device.Link, lab.ToHost).Packets-before, c.byDevices)
	}
}
