package steer

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// first returns a group of one socket on loopback, IPv4 or IPv6.
func first(t *testing.T, address string) (*Group, *net.UDPConn) {
	t.Helper()
	g := firstOf(t, address, 1)
	return g, g.Sockets()[0]
}

// firstOf returns a group of several sockets.
func firstOf(t *testing.T, address string, sockets int) *Group {
	t.Helper()
	addr, err := net.ResolveUDPAddr("udp", address)
	require.NoError(t, err)
	c, err := net.ListenUDP("udp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	g, err := Create(c, sockets)
	if err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skipf("needs CAP_BPF: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = g.Close(), closeAll(g.Sockets()) })
	require.Len(t, g.Sockets(), sockets)
	require.Equal(t, c, g.Sockets()[0])
	return g
}

// next joins a group with one socket as another process would, with duplicates of its maps.
func next(t *testing.T, g *Group, addr net.Addr) (*Group, *net.UDPConn) {
	t.Helper()
	joined := nextOf(t, g, addr, 1)
	return joined, joined.Sockets()[0]
}

// nextOf joins a group with several sockets.
func nextOf(t *testing.T, g *Group, addr net.Addr, sockets int) *Group {
	t.Helper()
	n, err := g.Next()
	require.NoError(t, err)
	joined, err := Join(addr.(*net.UDPAddr), n, sockets, duplicates(t, g))
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = joined.Close(), closeAll(joined.Sockets()) })
	require.Len(t, joined.Sockets(), sockets)
	return joined
}

// duplicates returns the maps of a group as another process gets them.
func duplicates(t *testing.T, g *Group) (maps Maps) {
	t.Helper()
	for i, fd := range g.Maps() {
		var err error
		maps[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
	}
	return maps
}

// client sends datagrams from a port of its own, to an address of loopback in place of the unspecified one.
func client(t *testing.T, to net.Addr) *net.UDPConn {
	t.Helper()
	addr := *to.(*net.UDPAddr)
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	c, err := net.DialUDP("udp", nil, &addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// received returns the datagrams that wait in a socket: over loopback they are there when Write has returned.
func received(t *testing.T, c *net.UDPConn) (all []string) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	buf := make([]byte, 2048)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for {
			n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			if err != nil {
				assert.True(t, errors.Is(err, unix.EAGAIN), "%v", err)
				return
			}
			all = append(all, string(buf[:n]))
		}
	}))
	return all
}

func id(t *testing.T, n Number) string {
	t.Helper()
	return idOf(t, n, 0)
}

// idOf returns a connection ID of a socket.
func idOf(t *testing.T, n Number, socket int) string {
	t.Helper()
	ids := IDs{n, socket}
	id, err := ids.GenerateConnectionID()
	require.NoError(t, err)
	require.Equal(t, ids.ConnectionIDLen(), id.Len())
	return string(id.Bytes())
}

const (
	version1  = "\x00\x00\x00\x01"
	remainder = "the rest of a packet"
)

// short returns a packet with a short header (RFC 9000 §17.3).
func short(id string) string { return "\x43" + id + remainder }

// long returns a packet with a long header (RFC 9000 §17.2); first is its first byte.
func long(first, id string) string {
	return first + version1 + string([]byte{byte(len(id))}) + id + remainder
}

const initial, handshake = "\xc3", "\xe3" // first bytes

// TestSteer has two processes on a port: of IPv4, of IPv6, and of IPv6 with clients of IPv4.
func TestSteer(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		t.Run(address, func(t *testing.T) { testSteer(t, address) })
	}
}

func testSteer(t *testing.T, address string) {
	old, oldSocket := first(t, address)
	addr := oldSocket.LocalAddr()
	young, youngSocket := next(t, old, addr)
	require.Equal(t, Number(1), young.number)
	random := "\x12\x34\x56\x78\x9a\xbc\xde\xf0"
	packets := map[string]string{
		"short header of the old process":   short(id(t, old.number)),
		"handshake packet of the old one":   long(handshake, id(t, old.number)),
		"Initial packet of the old one":     long(initial, id(t, old.number)),
		"short header of the young process": short(id(t, young.number)),
		"handshake packet of the young one": long(handshake, id(t, young.number)),
		"Initial of a new client":           long(initial, random),
		"Initial with a longer id":          long(initial, random+"\x00"),
		"short header that names nobody":    short(random),
		"short header of an ended process":  short(id(t, 77)),
		"short datagram":                    "hello",
		"no datagram":                       "",
	}
	forYoung := map[string]bool{"short header of the young process": true, "handshake packet of the young one": true}
	check := func(toNewest func(string) bool, newest, named *net.UDPConn) {
		t.Helper()
		for name, packet := range packets {
			// From many ports, since the kernel's own choice depends on the port.
			for range 8 {
				_, err := client(t, addr).Write([]byte(packet))
				require.NoError(t, err)
			}
			want, other := named, newest
			if toNewest(name) {
				want, other = newest, named
			}
			require.Len(t, received(t, want), 8, name)
			require.Empty(t, received(t, other), name)
		}
	}
	named := map[string]bool{
		"short header of the old process": true, "handshake packet of the old one": true,
		"Initial packet of the old one": true,
	}
	// Before the young process is promoted, it gets only packets that name it.
	check(func(name string) bool { return !forYoung[name] }, oldSocket, youngSocket)
	require.NoError(t, old.Promote(young.number))
	check(func(name string) bool { return !named[name] }, youngSocket, oldSocket)
	counts, err := young.Counts()
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"named": 5 * 16, "newest": 5 * 16, "gone": 16, "any": 0}, counts)
	for name, packet := range packets {
		socket, ok := Named([]byte(packet))
		switch {
		case named[name]:
			require.Equal(t, IDs{Process: old.number}, socket, name)
		case forYoung[name]:
			require.Equal(t, IDs{Process: young.number}, socket, name)
		}
		require.Equal(t, named[name] || forYoung[name] || name == "short header of an ended process", ok, name)
	}
}

// TestSteerAfterAnEnd closes sockets, as the end of a process does.
func TestSteerAfterAnEnd(t *testing.T) {
	one, oneSocket := first(t, "127.0.0.1:0")
	addr := oneSocket.LocalAddr()
	two, twoSocket := next(t, one, addr)
	_, threeSocket := next(t, two, addr)
	require.NoError(t, one.Promote(two.number))

	// The newest gets packets that name an ended process, and tells the client.
	require.NoError(t, oneSocket.Close())
	_, err := client(t, addr).Write([]byte(short(id(t, one.number))))
	require.NoError(t, err)
	require.Len(t, received(t, twoSocket), 1)

	// Without a newest one, any that is left gets new clients.
	require.NoError(t, twoSocket.Close())
	_, err = client(t, addr).Write([]byte(long(initial, "12345678")))
	require.NoError(t, err)
	require.Len(t, received(t, threeSocket), 1)
	counts, err := two.Counts()
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"named": 0, "newest": 0, "gone": 1, "any": 1}, counts)
}

// TestNothingIsLost has processes join and leave while a client sends: each datagram arrives once.
func TestNothingIsLost(t *testing.T) {
	g, socket := first(t, "127.0.0.1:0")
	addr := socket.LocalAddr()
	const processes, perProcess = 20, 200
	got := 0
	for range processes {
		c := client(t, addr)
		sent := make(chan error, 1)
		go func() {
			for range perProcess {
				if _, err := c.Write([]byte(long(initial, "12345678"))); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		young, youngSocket := next(t, g, addr)
		require.NoError(t, g.Promote(young.number))
		require.NoError(t, <-sent)
		got += len(received(t, socket)) + len(received(t, youngSocket))
		require.NoError(t, socket.Close())
		g, socket = young, youngSocket
	}
	require.Equal(t, processes*perProcess, got)
}

// TestAddressStaysExclusive binds the address of a group as another program would.
func TestAddressStaysExclusive(t *testing.T) {
	_, socket := first(t, "127.0.0.1:0")
	_, err := net.ListenUDP("udp", socket.LocalAddr().(*net.UDPAddr))
	require.ErrorIs(t, err, unix.EADDRINUSE)
}

// TestNumbersOfTheLiving checks that a number is used again only when its process has ended.
func TestNumbersOfTheLiving(t *testing.T) {
	one, socket := first(t, "127.0.0.1:0")
	two, _ := next(t, one, socket.LocalAddr())
	three, threeSocket := next(t, one, socket.LocalAddr())
	require.Equal(t, []Number{0, 1, 2}, []Number{one.number, two.number, three.number})
	n, err := one.Next()
	require.NoError(t, err)
	require.Equal(t, Number(3), n)
	require.NoError(t, threeSocket.Close())
	n, err = one.Next()
	require.NoError(t, err)
	require.Equal(t, Number(2), n)
}

// TestNumberIsTaken has a process join that was late: another one has its number by now, and keeps it.
func TestNumberIsTaken(t *testing.T) {
	one, socket := first(t, "127.0.0.1:0")
	two, twoSocket := next(t, one, socket.LocalAddr())
	_, err := Join(socket.LocalAddr().(*net.UDPAddr), two.number, 2, duplicates(t, one))
	require.ErrorIs(t, err, ebpf.ErrKeyExist)
	require.NoError(t, one.Promote(two.number))
	_, err = client(t, socket.LocalAddr()).Write([]byte("hello"))
	require.NoError(t, err)
	require.Len(t, received(t, twoSocket), 1)
}

// TestDraining has two processes tell how many sessions they have. A process that has ended is forgotten, also when
// another gets its number.
func TestDraining(t *testing.T) {
	one, oneSocket := first(t, "127.0.0.1:0")
	addr := oneSocket.LocalAddr()
	two, twoSocket := next(t, one, addr)
	three, _ := next(t, two, addr)
	draining := func(g *Group) []Process {
		all, err := g.Draining()
		require.NoError(t, err)
		return all
	}
	require.Empty(t, draining(three))
	require.NoError(t, one.Tell(5))
	require.NoError(t, two.Tell(1))
	pid := os.Getpid()
	require.Equal(t, []Process{{pid, 5}, {pid, 1}}, draining(three))
	require.NoError(t, one.Tell(0))
	require.Equal(t, []Process{{pid, 1}}, draining(three))
	require.NoError(t, twoSocket.Close())
	require.Empty(t, draining(three))
	n, err := one.Next()
	require.NoError(t, err)
	require.Equal(t, two.number, n)
	next(t, one, addr)
	require.Empty(t, draining(three))
}

// TestConnectionIDs checks that connection IDs differ, in all that does not name the socket.
func TestConnectionIDs(t *testing.T) {
	for socket := range MaxSockets {
		seen, third := make(map[string]bool), make(map[byte]bool)
		for range 1000 {
			id := idOf(t, 200, socket)
			require.Equal(t, "\xc8\x37", id[:2])
			require.Equal(t, socket, int(id[2])%MaxSockets)
			seen[id], third[id[2]] = true, true
		}
		require.Len(t, seen, 1000)
		require.Len(t, third, 256/MaxSockets)
	}
}
