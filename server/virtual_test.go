package server

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/lab/sim"
	"sluice/transport"
)

// simulated has the network of each test in virtual time: a *network by a *testing.T.
var simulated sync.Map

// network is the network of a test in virtual time. Packets take a millisecond, but for those of clients to the hosts
// of links.
type network struct {
	*sim.Network
	links sync.Map // a sim.Link by the host that packets go to
}

func (n *network) link(from, to netip.Addr) sim.Link {
	if l, ok := n.links.Load(to); ok && from == loopback.Addr() {
		return l.(sim.Link)
	}
	return sim.Link{Delay: time.Millisecond}
}

// virtual runs a test in virtual time. Servers and clients that it starts use a network of its own. Whatever does not
// end makes it fail.
func virtual(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := new(network)
		n.Network = sim.New(1, n.link)
		simulated.Store(t, n)
		t.Cleanup(func() {
			time.Sleep(5 * time.Minute) // for what those who were cut off have left
			simulated.Delete(t)
			n.Close()
		})
		f(t)
	})
}

// networkOf returns the network of a test in virtual time, or nil.
func networkOf(t *testing.T) *network {
	n, _ := simulated.Load(t)
	v, _ := n.(*network)
	return v
}

// onNetwork has a server listen on the test's network, if it has one.
func onNetwork(t *testing.T, cfg *transport.ListenConfig) {
	n := networkOf(t)
	if n == nil {
		return
	}
	cfg.Sockets = func(at *net.UDPAddr) ([]transport.Socket, error) {
		c, err := n.Listen(netip.AddrPortFrom(at.AddrPort().Addr().Unmap(), uint16(at.Port)))
		return []transport.Socket{{Conn: c}}, err
	}
}

// listenUDP returns what opens sockets for clients on the test's network, or nil.
func listenUDP(t *testing.T) func(string, *net.UDPAddr) (transport.UDPConn, error) {
	n := networkOf(t)
	if n == nil {
		return nil
	}
	return func(string, *net.UDPAddr) (transport.UDPConn, error) { return n.Listen(loopback) }
}

// apart is the address of a server that packets have another way to than to the rest of a test.
const apart = "127.0.0.2"

var loopback = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
