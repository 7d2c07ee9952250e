package sim

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// buffered is how many packets a socket holds that nobody has read. Further ones are lost.
const buffered = 512

var errInUse = errors.New("address already in use")

// Conn is a UDP socket of a Network. It implements transport.UDPConn.
type Conn struct {
	network *Network
	at      netip.AddrPort
	names   func(packet []byte) bool // of a socket that shares its port; else nil
	in      chan packet
	device  atomic.Pointer[Device]
	full    atomic.Pointer[netip.Addr] // see Overflow; nil: there is room
	end     sync.Once
	closed  chan struct{}
	dead    bool // the host was killed. The network's mutex guards it

	mu   sync.Mutex
	late chan struct{} // closed while the read deadline has passed
}

// Device sees the packets of a socket before the socket does, and those that it sends.
type Device interface {
	// Receive takes a packet. pass gives it to the socket. It must not call the Network before it returns.
	Receive(from netip.AddrPort, b []byte, pass func())
	// Sent reports that the socket has sent a packet.
	Sent(to netip.AddrPort)
}

// Attach puts a device in front of the socket.
func (c *Conn) Attach(d Device) { c.device.Store(&d) }

// Transmit sends a packet from the socket's address, without its device.
func (c *Conn) Transmit(to netip.AddrPort, b []byte) { c.network.send(c, to, b) }

func newConn(n *Network, at netip.AddrPort, names func(packet []byte) bool) *Conn {
	return &Conn{
		network: n, at: at, names: names, in: make(chan packet, buffered), closed: make(chan struct{}),
		late: make(chan struct{}),
	}
}

// take takes a packet, or has the device take it.
func (c *Conn) take(p packet) {
	if d := c.device.Load(); d != nil {
		(*d).Receive(p.from, p.data, func() { c.enqueue(p) })
		return
	}
	c.enqueue(p)
}

// Overflow leaves the socket no room for packets from a host, though its device sees them. The zero host makes room.
func (c *Conn) Overflow(host netip.Addr) { c.full.Store(&host) }

func (c *Conn) enqueue(p packet) {
	if from := c.full.Load(); from != nil && *from == HostOf(p.from.Addr()) {
		return
	}
	select {
	case c.in <- p:
	default: // it is lost
	}
}

// ReadFrom implements [net.PacketConn].
func (c *Conn) ReadFrom(b []byte) (int, net.Addr, error) {
	c.mu.Lock()
	late := c.late
	c.mu.Unlock()
	select {
	case <-c.closed:
		return 0, nil, net.ErrClosed
	case <-late:
		return 0, nil, os.ErrDeadlineExceeded
	case p := <-c.in:
		return copy(b, p.data), net.UDPAddrFromAddrPort(p.from), nil
	}
}

// WriteTo implements [net.PacketConn].
func (c *Conn) WriteTo(b []byte, to net.Addr) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	at := to.(*net.UDPAddr).AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if d := c.device.Load(); d != nil {
		(*d).Sent(at)
	}
	c.network.send(c, at, b)
	return len(b), nil
}

// WriteMsgUDPAddrPort implements transport.UDPConn. Control messages are ignored.
func (c *Conn) WriteMsgUDPAddrPort(b, oob []byte, to netip.AddrPort) (n, oobn int, err error) {
	n, err = c.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return n, len(oob), err
}

// Kill makes the socket vanish: its process has crashed.
func (c *Conn) Kill() {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if !c.dead {
		c.dead = true
		c.network.removeLocked(c)
	}
}

// Close implements [net.PacketConn].
func (c *Conn) Close() error {
	c.end.Do(func() {
		close(c.closed)
		c.network.mu.Lock()
		defer c.network.mu.Unlock()
		if !c.dead {
			c.network.removeLocked(c)
		}
	})
	return nil
}

// LocalAddr implements [net.PacketConn].
func (c *Conn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.at) }

// SetDeadline implements [net.PacketConn].
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements [net.PacketConn]. Writing takes no time.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.PacketConn]. QUIC has no deadline that is ahead, only those that end reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Until(t) > 0 {
		return errors.ErrUnsupported
	}
	select {
	case <-c.late:
		if t.IsZero() {
			c.late = make(chan struct{})
		}
	default:
		if !t.IsZero() {
			close(c.late)
		}
	}
	return nil
}

// SetReadBuffer does nothing: the buffer has its size.
func (c *Conn) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing: there is no such buffer.
func (c *Conn) SetWriteBuffer(int) error { return nil }

// Promote makes the socket the newest of its port.
func (c *Conn) Promote() {
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.ports[c.at], c); i >= 0 {
		n.ports[c.at] = append(slices.Delete(n.ports[c.at], i, i+1), c)
	}
}
