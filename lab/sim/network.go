package sim

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Packet is a packet that a socket has sent, as its receiver sees it: behind a NAT, address and port are the NAT's.
type Packet struct {
	At       time.Time
	From, To netip.AddrPort
	Data     []byte
	Stream   bool        // it is a segment of a TCP connection,
	Sequence uint32      // which begins with this number
	Arrivals []time.Time // when it arrives; none: it is lost on the way
}

// Network delivers packets between sockets. It belongs to one synctest bubble. Its methods may be called on any
// goroutine.
type Network struct {
	mu      sync.Mutex
	rng     *rand.Rand
	link    func(from, to netip.Addr) Link
	paths   map[[2]netip.Addr]*path
	ports   map[netip.AddrPort][]*Conn        // the last one of a port gets packets that name none
	moved   map[netip.AddrPort]netip.AddrPort // by the address behind a NAT: the address that others see
	tcp     map[netip.AddrPort]*Listener
	streams []*Stream
	queue   []packet // the next one to arrive is the first
	order   uint64
	port    uint16 // the last one that was chosen
	watch   func(Packet)
	changed chan struct{}
	closed  chan struct{}
}

// New returns a Network. link is called for each packet while the Network is locked: it must not call the Network, nor
// take a lock under which somebody does.
func New(seed uint64, link func(from, to netip.Addr) Link) *Network {
	n := &Network{
		rng: rand.New(rand.NewPCG(seed, 0)), link: link, paths: make(map[[2]netip.Addr]*path),
		ports: make(map[netip.AddrPort][]*Conn), moved: make(map[netip.AddrPort]netip.AddrPort), port: 49152,
		tcp:     make(map[netip.AddrPort]*Listener),
		changed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	go n.run()
	return n
}

// Host returns the address of a host, by a number below 256.
func Host(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }

// HostOf returns the address of the host that others see at an address, which is another one after
// [Network.ChangeAddress].
func HostOf(seen netip.Addr) netip.Addr {
	if !seen.Is4() || seen.As4()[2]&moved == 0 {
		return seen
	}
	return move(seen)
}

// moved is set in the third byte of the other address that a host can have.
const moved = 1 << 7

// move returns the other address of a host.
func move(a netip.Addr) netip.Addr {
	b := a.As4()
	b[2] ^= moved
	return netip.AddrFrom4(b)
}

// Watch has a function called with each packet that a socket sends from now on, also with those that are lost. It must
// not call the Network.
func (n *Network) Watch(f func(Packet)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch = f
}

// Close ends the delivery of packets.
func (n *Network) Close() { close(n.closed) }

// Listen opens a socket that has its port alone. Port 0 chooses a free port.
func (n *Network) Listen(at netip.AddrPort) (*Conn, error) { return n.open(at, nil) }

// Share opens a socket at a port that other sockets may have, too, as with package steer: names reports whether a
// packet names this socket. Packets that name none go to the first socket, until [Conn.Promote] makes another one the
// newest.
func (n *Network) Share(at netip.AddrPort, names func(packet []byte) bool) (*Conn, error) {
	return n.open(at, names)
}

func (n *Network) open(at netip.AddrPort, names func(packet []byte) bool) (*Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.Port() == 0 {
		at = netip.AddrPortFrom(at.Addr(), n.freePortLocked())
	}
	others := n.ports[at]
	if len(others) > 0 && (names == nil || others[0].names == nil) {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: errInUse}
	}
	c := newConn(n, at, names)
	n.ports[at] = slices.Insert(others, 0, c)
	return c, nil
}

// removeLocked removes a socket from its port, and frees the port if it was the last.
func (n *Network) removeLocked(c *Conn) {
	n.ports[c.at] = slices.DeleteFunc(n.ports[c.at], func(o *Conn) bool { return o == c })
	if len(n.ports[c.at]) == 0 {
		delete(n.ports, c.at)
		delete(n.moved, c.at)
	}
}

func (n *Network) freePortLocked() uint16 {
	n.port++
	return n.port
}

// Kill makes all sockets of a host vanish: nothing more comes from them or to them. They do not know.
func (n *Network) Kill(host netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at, sockets := range n.ports {
		if at.Addr() != host {
			continue
		}
		for _, c := range sockets {
			c.dead = true
		}
		delete(n.ports, at)
		delete(n.moved, at)
	}
	n.killStreamsLocked(host)
}

// Rebind gives all sockets of a host other ports in the eyes of others, as a NAT does that has forgotten them. Packets
// to the old ports are lost.
func (n *Network) Rebind(host netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at := range n.ports {
		if at.Addr() == host {
			n.moved[at] = netip.AddrPortFrom(n.outsideLocked(at).Addr(), n.freePortLocked())
		}
	}
}

// ChangeAddress gives all sockets of a host its other address in the eyes of others, with the same ports. Packets to
// the old address are lost.
func (n *Network) ChangeAddress(host netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at := range n.ports {
		if at.Addr() == host {
			seen := n.outsideLocked(at)
			n.moved[at] = netip.AddrPortFrom(move(seen.Addr()), seen.Port())
		}
	}
}

// outsideLocked returns a socket's address as others see it.
func (n *Network) outsideLocked(at netip.AddrPort) netip.AddrPort {
	if seen, ok := n.moved[at]; ok {
		return seen
	}
	return at
}

// insideLocked returns the socket to which a packet goes, or nil.
func (n *Network) insideLocked(p *packet) *Conn {
	for at, seen := range n.moved {
		if seen == p.to {
			return n.namedLocked(at, p)
		}
	}
	if _, gone := n.moved[p.to]; gone {
		return nil
	}
	return n.namedLocked(p.to, p)
}

// namedLocked returns the socket of a port that a packet names, or the newest one, or nil.
func (n *Network) namedLocked(at netip.AddrPort, p *packet) *Conn {
	sockets := n.ports[at]
	for _, c := range sockets {
		if c.names != nil && c.names(p.data) {
			return c
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	return sockets[len(sockets)-1]
}

// send puts a packet on its way.
func (n *Network) send(c *Conn, to netip.AddrPort, b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.dead {
		return
	}
	receiver := HostOf(to.Addr())
	l := n.link(c.at.Addr(), receiver)
	arrivals := n.pathLocked(c.at.Addr(), receiver).carry(&l, len(b), time.Now(), n.rng)
	if n.watch != nil {
		n.watch(Packet{
			At: time.Now(), From: n.outsideLocked(c.at), To: to, Data: bytes.Clone(b), Arrivals: arrivals,
		})
	}
	for _, at := range arrivals {
		data := bytes.Clone(b)
		if len(data) > 0 && n.rng.Float64() < l.Corrupt {
			data[n.rng.IntN(len(data))] ^= 1 << n.rng.IntN(8)
		}
		n.pushLocked(packet{at: at, from: n.outsideLocked(c.at), to: to, data: data})
	}
}

// pathLocked returns the way from one host to another.
func (n *Network) pathLocked(from, to netip.Addr) *path {
	ends := [2]netip.Addr{from, to}
	if n.paths[ends] == nil {
		n.paths[ends] = &path{}
	}
	return n.paths[ends]
}

// pushLocked puts a packet, or what else happens later, into the queue.
func (n *Network) pushLocked(p packet) {
	n.order++
	p.order = n.order
	at, _ := slices.BinarySearchFunc(n.queue, p, next)
	n.queue = slices.Insert(n.queue, at, p)
	select {
	case n.changed <- struct{}{}:
	default: // it will look
	}
}

// run delivers packets when they arrive.
func (n *Network) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-n.closed:
			return
		case <-n.changed:
		case <-timer.C:
		}
		if wait, any := n.deliver(); any {
			timer.Reset(wait)
		}
	}
}

// deliver delivers what has arrived, and returns how long the next packet takes, if there is one.
func (n *Network) deliver() (wait time.Duration, any bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 {
		p := n.queue[0]
		if wait = time.Until(p.at); wait > 0 {
			return wait, true
		}
		n.queue = n.queue[1:]
		if p.do != nil {
			p.do()
			continue
		}
		if c := n.insideLocked(&p); c != nil {
			c.take(p)
		}
	}
	return 0, false
}

func (n *Network) newStreamLocked(local, remote netip.AddrPort, peer *Stream) *Stream {
	s := &Stream{network: n, local: local, remote: remote, peer: peer, changed: make(chan struct{})}
	n.streams = append(n.streams, s)
	return s
}

// DialTCP connects a host with a TCP port.
func (n *Network) DialTCP(ctx context.Context, from netip.Addr, to netip.AddrPort) (*Stream, error) {
	n.mu.Lock()
	s := n.newStreamLocked(netip.AddrPortFrom(from, n.freePortLocked()), to, nil)
	s.waits = []segment{{open: true}}
	s.pumpLocked()
	n.mu.Unlock()
	for {
		n.mu.Lock()
		connected, err, changed := s.connected, s.err, s.changed
		n.mu.Unlock()
		switch {
		case err != nil:
			return nil, s.wrap("dial", err)
		case connected:
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			_ = s.Close() // nobody has it
			return nil, s.wrap("dial", context.Cause(ctx))
		}
	}
}

// ListenTCP opens a TCP port.
func (n *Network) ListenTCP(at netip.AddrPort) (*Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &Listener{network: n, at: at, in: make(chan *Stream, backlog), closed: make(chan struct{})}
	if n.tcp[at] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: l.Addr(), Err: errInUse}
	}
	n.tcp[at] = l
	return l, nil
}

// acceptLocked returns the other end of a new connection, or nil.
func (n *Network) acceptLocked(s *Stream) *Stream {
	l := n.tcp[s.remote]
	if l == nil || len(l.in) == cap(l.in) {
		return nil
	}
	to := n.newStreamLocked(s.remote, s.local, s)
	s.peer = to
	l.in <- to
	return to
}

// livesLocked reports whether a host has a port.
func (n *Network) livesLocked(host netip.Addr) bool {
	for at := range n.ports {
		if at.Addr() == host {
			return true
		}
	}
	return false
}

// killStreamsLocked makes all connections and TCP ports of a host vanish.
func (n *Network) killStreamsLocked(host netip.Addr) {
	for at := range n.tcp {
		if at.Addr() == host {
			delete(n.tcp, at)
		}
	}
	for _, s := range n.streams {
		s.dead = s.dead || s.local.Addr() == host
	}
	n.streams = slices.DeleteFunc(n.streams, func(s *Stream) bool { return s.dead })
}

// packet is a packet on its way.
type packet struct {
	at       time.Time
	order    uint64 // among packets that arrive at the same time
	from, to netip.AddrPort
	data     []byte
	do       func() // in place of a delivery; the network is locked
}

// next orders packets by when they arrive.
func next(a, b packet) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) }
