package sim

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pair is two sockets on a network, whose packets all go by one link.
type pair struct {
	*Network
	a, b *Conn
	link Link
}

// onPair runs a test with two sockets in virtual time.
func onPair(t *testing.T, f func(*testing.T, *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{}
		p.Network = New(1, func(netip.Addr, netip.Addr) Link { return p.link })
		defer p.Close()
		var err error
		p.a, err = p.Listen(netip.AddrPortFrom(Host(1), 0))
		require.NoError(t, err)
		p.b, err = p.Listen(netip.AddrPortFrom(Host(2), 443))
		require.NoError(t, err)
		f(t, p)
	})
}

// sends sends n packets of a size at once, and returns the times at which they arrive and how many are wrong.
func (p *pair) sends(t *testing.T, n, size int) (arrivals []time.Duration, wrong int) {
	t.Helper()
	for range n {
		_, err := p.a.WriteTo(make([]byte, size), p.b.LocalAddr())
		require.NoError(t, err)
	}
	began, b := time.Now(), make([]byte, 2000)
	receiver := p.b
	defer time.AfterFunc(time.Minute, func() { _ = receiver.SetReadDeadline(time.Now()) }).Stop()
	require.NoError(t, receiver.SetReadDeadline(time.Time{}))
	for {
		n, from, err := p.b.ReadFrom(b)
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			return arrivals, wrong
		}
		require.Equal(t, p.a.LocalAddr(), from)
		require.Equal(t, size, n)
		arrivals = append(arrivals, time.Since(began))
		for _, x := range b[:n] {
			if x != 0 {
				wrong++
			}
		}
	}
}

func TestLinks(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		link  Link
		size  int
		check func(*testing.T, []time.Duration, int)
	}{
		"nothing": {Link{}, 100, func(t *testing.T, at []time.Duration, _ int) {
			require.Len(t, at, 400)
			require.Zero(t, at[399])
		}},
		"delay": {Link{Delay: 30 * ms}, 100, func(t *testing.T, at []time.Duration, _ int) {
			require.Len(t, at, 400)
			require.Equal(t, 30*ms, at[0])
			require.Equal(t, 30*ms, at[399])
		}},
		"jitter": {Link{Delay: 30 * ms, Jitter: 10 * ms}, 100, func(t *testing.T, at []time.Duration, _ int) {
			require.Len(t, at, 400)
			require.Less(t, at[0], 31*ms)
			require.Greater(t, at[399], 39*ms)
			require.Less(t, at[399], 40*ms)
		}},
		"loss": {Link{Loss: 0.25}, 100, func(t *testing.T, at []time.Duration, _ int) {
			require.InDelta(t, 300, len(at), 40)
		}},
		"bursts": {Link{Burst: Burst{Begin: 0.1, End: 0.1, Loss: 1}}, 100,
			func(t *testing.T, at []time.Duration, _ int) { require.InDelta(t, 200, len(at), 80) }},
		"duplicates": {Link{Duplicate: 0.2}, 100, func(t *testing.T, at []time.Duration, _ int) {
			require.InDelta(t, 480, len(at), 40)
		}},
		"corruption": {Link{Corrupt: 0.5}, 100, func(t *testing.T, _ []time.Duration, wrong int) {
			require.InDelta(t, 200, wrong, 40)
		}},
		"MTU":      {Link{MTU: 100}, 100, func(t *testing.T, at []time.Duration, _ int) { require.Len(t, at, 400) }},
		"too long": {Link{MTU: 100}, 101, func(t *testing.T, at []time.Duration, _ int) { require.Empty(t, at) }},
		"down":     {Link{Down: true}, 100, func(t *testing.T, at []time.Duration, _ int) { require.Empty(t, at) }},
		"rate": {Link{Rate: 100_000, Queue: time.Second}, 100, func(t *testing.T, at []time.Duration, _ int) {
			require.Len(t, at, 400)
			require.Equal(t, ms, at[0])
			require.Equal(t, 400*ms, at[399])
		}},
		"queue": {Link{Rate: 100_000, Queue: 10 * ms}, 100, func(t *testing.T, at []time.Duration, _ int) {
			require.Len(t, at, 11)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onPair(t, func(t *testing.T, p *pair) {
				p.link = tt.link
				at, wrong := p.sends(t, 400, tt.size)
				tt.check(t, at, wrong)
			})
		})
	}
}

// TestBurstEnds checks that a burst ends also for those who send little: a client that tries again after seconds finds
// the link good.
func TestBurstEnds(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		arrived := false
		p.Watch(func(sent Packet) { arrived = len(sent.Arrivals) > 0 })
		arrives := func(link Link) bool {
			p.link = link
			_, err := p.a.WriteTo([]byte{0}, p.b.LocalAddr())
			require.NoError(t, err)
			return arrived
		}
		begins, goes := Burst{Begin: 1, Loss: 1, Lasts: time.Second}, Burst{Loss: 1, Lasts: time.Second}
		require.False(t, arrives(Link{Burst: begins}))
		time.Sleep(time.Second - 1)
		require.False(t, arrives(Link{Burst: goes}))
		time.Sleep(time.Nanosecond)
		require.True(t, arrives(Link{Burst: goes}))
		require.False(t, arrives(Link{Burst: begins}), "another burst")
		goes.Lasts = 0
		time.Sleep(time.Hour)
		require.False(t, arrives(Link{Burst: goes}), "only packets end it")
	})
}

// TestBufferOverflows checks that a socket that nobody reads loses packets.
func TestBufferOverflows(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		for range buffered + 10 {
			_, err := p.a.WriteTo([]byte{0}, p.b.LocalAddr())
			require.NoError(t, err)
		}
		synctest.Wait()
		at, _ := p.sends(t, 0, 1)
		require.Len(t, at, buffered)
	})
}

func TestKilledHost(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		p.Kill(Host(2))
		at, _ := p.sends(t, 3, 10)
		require.Empty(t, at)
		again, err := p.Listen(netip.AddrPortFrom(Host(2), 443))
		require.NoError(t, err, "the port is free")
		require.NoError(t, p.b.Close())
		p.b = again
		at, _ = p.sends(t, 3, 10)
		require.Len(t, at, 3)
		p.Kill(Host(1))
		at, _ = p.sends(t, 3, 10)
		require.Empty(t, at, "from a killed host")
	})
}

// TestMoves checks that others see another port, or address, whose packets come to the socket, and that the old one is
// dead.
func TestMoves(t *testing.T) {
	for name, move := range map[string]func(*Network, netip.Addr){
		"port": (*Network).Rebind, "address": (*Network).ChangeAddress,
	} {
		t.Run(name, func(t *testing.T) { testMove(t, move) })
	}
}

func testMove(t *testing.T, move func(*Network, netip.Addr)) {
	onPair(t, func(t *testing.T, p *pair) {
		move(p.Network, Host(1))
		_, err := p.a.WriteTo([]byte("hello"), p.b.LocalAddr())
		require.NoError(t, err)
		b := make([]byte, 10)
		_, from, err := p.b.ReadFrom(b)
		require.NoError(t, err)
		require.NotEqual(t, p.a.LocalAddr(), from)
		require.Equal(t, Host(1), HostOf(from.(*net.UDPAddr).AddrPort().Addr()))
		for _, to := range []net.Addr{p.a.LocalAddr(), from} {
			_, err = p.b.WriteTo([]byte("answer"), to)
			require.NoError(t, err)
		}
		n, _, err := p.a.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, "answer", string(b[:n]))
		synctest.Wait()
		require.NoError(t, p.a.SetReadDeadline(time.Now()))
		_, _, err = p.a.ReadFrom(b)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the other answer is lost")
	})
}

func TestSockets(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		_, err := p.Listen(netip.AddrPortFrom(Host(2), 443))
		require.ErrorIs(t, err, errInUse)
		require.ErrorIs(t, p.b.SetReadDeadline(time.Now().Add(time.Second)), errors.ErrUnsupported)
		time.AfterFunc(time.Minute, func() { _ = p.b.Close() })
		_, _, err = p.b.ReadFrom(nil)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = p.b.WriteTo(nil, p.a.LocalAddr())
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = p.Listen(netip.AddrPortFrom(Host(2), 443))
		require.NoError(t, err, "a closed socket's port is free")
	})
}

// TestSharedPort has a second socket take over a port: new clients come to it once it is the newest, and each socket
// keeps the packets that name it.
func TestSharedPort(t *testing.T) {
	onPair(t, func(t *testing.T, p *pair) {
		at := netip.AddrPortFrom(Host(3), 443)
		share := func(name string) *Conn {
			c, err := p.Share(at, func(packet []byte) bool { return string(packet) == name })
			require.NoError(t, err)
			return c
		}
		comesTo := func(packet string, want *Conn) {
			t.Helper()
			_, err := p.a.WriteTo([]byte(packet), net.UDPAddrFromAddrPort(at))
			require.NoError(t, err)
			synctest.Wait()
			require.Len(t, want.in, 1)
			<-want.in
		}
		old := share("old")
		comesTo("anybody", old)
		young := share("young")
		comesTo("anybody", old)
		comesTo("young", young)
		young.Promote()
		comesTo("anybody", young)
		comesTo("old", old)
		require.NoError(t, old.Close())
		comesTo("old", young)

		_, err := p.Listen(at)
		require.ErrorIs(t, err, errInUse)
		_, err = p.Share(p.b.at, func([]byte) bool { return true })
		require.ErrorIs(t, err, errInUse, "the other socket has its port alone")
		p.Kill(Host(3))
		require.NoError(t, young.Close())
		_, err = p.Listen(at)
		require.NoError(t, err)
	})
}
