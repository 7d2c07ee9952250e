package steer

import (
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// counted returns how many datagrams wait in each socket of a group, and takes them.
func counted(t *testing.T, g *Group) []int {
	t.Helper()
	counts := make([]int, len(g.Sockets()))
	for i, c := range g.Sockets() {
		counts[i] = len(received(t, c))
	}
	return counts
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestSockets has processes with several sockets on a port. A packet finds the socket that its connection ID names from
// any address, as after the rebinding of a NAT.
func TestSockets(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		t.Run(address, func(t *testing.T) { testSockets(t, address) })
	}
}

func testSockets(t *testing.T, address string) {
	old := firstOf(t, address, 4)
	addr := old.Sockets()[0].LocalAddr()
	young := nextOf(t, old, addr, 2)
	newest, other := old, young
	for range 2 {
		for _, g := range []*Group{old, young} {
			for i, c := range g.Sockets() {
				id := idOf(t, g.number, i)
				for _, packet := range []string{short(id), long(handshake, id), long(initial, id)} {
					for range 8 {
						_, err := client(t, addr).Write([]byte(packet))
						require.NoError(t, err)
					}
				}
				require.Len(t, received(t, c), 3*8)
				require.Zero(t, sum(counted(t, old))+sum(counted(t, young)))
			}
		}

		// Packets that name no socket go to a socket of the newest process: all from one address to the same one.
		reached := make([]bool, len(newest.Sockets()))
		for range 100 {
			c := client(t, addr)
			for _, packet := range []string{
				long(initial, "\x12\x34\x56\x78\x9a\xbc\xde\xf0"), long(initial, "12345678901"), short("87654321"),
				"hello",
				short(idOf(t, old.number, 4)), short(idOf(t, old.number, MaxSockets-1)), // the process has fewer
				long(handshake, idOf(t, young.number, 3)), short(idOf(t, 99, 0)), // there is no such process
			} {
				_, err := c.Write([]byte(packet))
				require.NoError(t, err)
			}
			counts := counted(t, newest)
			for i, n := range counts {
				require.Contains(t, []int{0, 8}, n, "%v", counts)
				reached[i] = reached[i] || n > 0
			}
			require.Equal(t, 8, sum(counts))
			require.Zero(t, sum(counted(t, other)))
		}
		require.NotContains(t, reached, false)

		require.NoError(t, old.Promote(young.number))
		newest, other = young, old
	}
	counts, err := young.Counts()
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"named": 2 * 6 * 24, "newest": 2 * 400, "gone": 2 * 400, "any": 0}, counts)

	// At the end of a process all its sockets are gone.
	require.NoError(t, closeAll(old.Sockets()))
	for i := range 4 {
		_, err := client(t, addr).Write([]byte(short(idOf(t, old.number, i))))
		require.NoError(t, err)
	}
	require.Equal(t, 4, sum(counted(t, young)))
	n, err := young.Next()
	require.NoError(t, err)
	require.Equal(t, Number(2), n)
}

// TestSocketsFail checks that nothing is left of sockets that could not be opened.
func TestSocketsFail(t *testing.T) {
	g := firstOf(t, "127.0.0.1:0", 2)
	addr := g.Sockets()[0].LocalAddr().(*net.UDPAddr)
	var maps Maps
	for i := range maps {
		maps[i] = -1
	}
	_, err := Join(addr, 1, 2, maps)
	require.Error(t, err)
	require.NoError(t, closeAll(g.Sockets()))
	c, err := net.ListenUDP("udp", addr)
	require.NoError(t, err, "the address is free")
	require.NoError(t, c.Close())
}

// onCPU calls f on a CPU.
func onCPU(t *testing.T, n int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	one.Set(n)
	if unix.SchedSetaffinity(0, &one) != nil {
		t.Skipf("needs CPU %d", n)
	}
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &all)) }()
	f()
}

// TestArrivals sends from the CPU of the reader and from another one: over loopback, a datagram arrives on the CPU that
// sends it.
func TestArrivals(t *testing.T) {
	g := firstOf(t, "127.0.0.1:0", 2)
	addr := g.Sockets()[0].LocalAddr()
	send := func(g *Group, socket, datagrams int) {
		for range datagrams {
			_, err := client(t, addr).Write([]byte(short(idOf(t, g.number, socket))))
			require.NoError(t, err)
		}
	}
	expect := func(want ...Arrivals) {
		t.Helper()
		all, err := g.Arrivals()
		require.NoError(t, err)
		require.Equal(t, want, all)
	}
	onCPU(t, 0, func() {
		send(g, 0, 5)
		expect(Arrivals{}, Arrivals{}) // nobody tells where the readers run
		g.Woken(0)
		send(g, 0, 3)
		expect(Arrivals{3, 0}, Arrivals{})
	})
	onCPU(t, 1, func() {
		send(g, 0, 2)
		expect(Arrivals{3, 2}, Arrivals{})
		g.Woken(0)
		g.Woken(1)
		send(g, 0, 1)
		send(g, 1, 4)
		expect(Arrivals{4, 2}, Arrivals{4, 0})
		_, err := client(t, addr).Write([]byte("for either of them"))
		require.NoError(t, err)
		all, err := g.Arrivals()
		require.NoError(t, err)
		require.EqualValues(t, 9, all[0].SameCPU+all[1].SameCPU)
	})

	// Another process that gets the number has told nothing yet.
	joined := nextOf(t, g, addr, 2)
	joined.Woken(0)
	n := joined.number
	require.NoError(t, closeAll(joined.Sockets()))
	require.NoError(t, joined.Close())
	joined.Woken(1) // too late, and no harm
	again := nextOf(t, g, addr, 2)
	require.Equal(t, n, again.number)
	before, err := g.Arrivals()
	require.NoError(t, err)
	send(again, 0, 5)
	send(again, 1, 5)
	expect(before...)
}
