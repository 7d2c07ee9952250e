package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// local is a port on the loopback interface for sessions of this process with itself: see Server.DialFor and
// Server.DialOwn.
type local struct {
	server *Server

	mu          sync.Mutex
	listener    *transport.Listener // nil before it is needed
	certificate []byte              // SHA-256
	senders     linkSenders
	dialed      map[netip.AddrPort]*dialed // by the UDP address that a session is dialed from, until it arrives
	closed      bool
}

// dialed is a session that is on its way, and for whom.
type dialed struct {
	client   net.Addr
	audience *relay.Audience // nil: the session is the client's
	arrived  chan struct{}
}

// ownLimits are those of a session of the relay with itself, at the end that subscribes: it holds little, since packets
// take no time. Who dials one counts on that.
var ownLimits = transport.Limits{
	MaxIncomingUniStreams: 256, MaxStreamWindow: 1 << 20, MaxConnWindow: 1 << 20,
	HandshakeTimeout: linkLimits.HandshakeTimeout,
}

func (d *dialed) limits() transport.Limits {
	if d.audience != nil {
		return ownLimits
	}
	return linkLimits
}

// DialFor opens a session with this relay on behalf of a client of another protocol. To the relay it is a session from
// the client's address: permissions, quotas and metrics are the client's.
func (s *Server) DialFor(ctx context.Context, client net.Addr) (transport.Conn, error) {
	return s.local.dial(ctx, &dialed{client: client, arrived: make(chan struct{})})
}

// DialOwn opens a session of this relay with itself, which may subscribe to what the guests of an audience may
// ([relay.Relay.ServeOwn]).
func (s *Server) DialOwn(ctx context.Context, a *relay.Audience) (transport.Conn, error) {
	return s.local.dial(ctx, &dialed{audience: a, arrived: make(chan struct{})})
}

func (l *local) dial(ctx context.Context, d *dialed) (transport.Conn, error) {
	to, err := l.open()
	if err != nil {
		return nil, fmt.Errorf("open a port for sessions of other protocols: %w", err)
	}
	var from netip.AddrPort
	defer func() { l.forget(from, d) }() // else whoever gets the address next would be taken for the client
	conn, err := transport.Dial(ctx, "moqt://"+to.String()+"/", transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: l.certificate, Limits: d.limits(),
		// The address is known before the first packet leaves, so nobody else's packet can come first.
		ListenUDP: func(network string, _ *net.UDPAddr) (transport.UDPConn, error) {
			c, err := transport.ListenUDP(network, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err == nil {
				from = udpAddress(c.LocalAddr())
				l.add(from, d)
			}
			return c, err
		},
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-d.arrived:
		return conn, nil
	case <-conn.Context().Done():
		return nil, fmt.Errorf("the relay did not take the session: %w", context.Cause(conn.Context()))
	case <-ctx.Done():
		l.forget(from, d)                                              // before the address is free
		_ = conn.CloseWithError(uint64(moqt.SessionInternalError), "") // fails only if it has ended already
		return nil, context.Cause(ctx)
	}
}

// open opens the port, once, and returns its address.
func (l *local) open() (net.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the relay has ended")
	}
	if l.listener != nil {
		return l.listener.Addr(), nil
	}
	cert, err := transport.SelfSignedCertificate(linkCertificateValidity)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(cert.Certificate[0])
	l.certificate, l.senders, l.dialed = hash[:], linkSenders{server: l.server}, make(map[netip.AddrPort]*dialed)
	l.listener, err = transport.Listen("127.0.0.1:0", transport.ListenConfig{
		Certificate: &cert, Protocols: moqt.ALPNs(), NewHooks: l.senders.newHooks, Limits: linkLimits,
		MaxConnections: l.server.cfg.Transport.MaxConnections, MaxConnectionsPerSource: -1, Logger: l.server.log,
	})
	if err != nil {
		return nil, err
	}
	l.server.tasks.Go(l.accept)
	return l.listener.Addr(), nil
}

// accept serves the sessions that dialFor opens. Other programs on this machine get none.
func (l *local) accept() {
	for {
		conn, err := l.listener.Accept(context.Background())
		if err != nil {
			return // closed
		}
		d := l.take(udpAddress(conn.RemoteAddr()))
		if d == nil {
			_ = conn.CloseWithError(uint64(moqt.SessionUnauthorized), "") // fails only if it has ended already
			continue
		}
		close(d.arrived)
		if d.audience != nil {
			l.server.tasks.Go(func() { l.server.serveOwn(conn, d.audience) })
		} else {
			l.server.tasks.Go(func() { l.server.serveConn(&localConn{conn, d.client}) })
		}
	}
}

// udpAddress returns an address as a key: IPv4 has two forms otherwise.
func udpAddress(a net.Addr) netip.AddrPort {
	ap := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func (l *local) add(from netip.AddrPort, d *dialed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialed[from] = d
}

// take returns the session that is dialed from an address, once, or nil.
func (l *local) take(from netip.AddrPort) *dialed {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.dialed[from]
	delete(l.dialed, from)
	return d
}

// forget removes a session that does not arrive any more.
func (l *local) forget(from netip.AddrPort, d *dialed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dialed[from] == d {
		delete(l.dialed, from)
	}
}

// close ends the sessions of the port.
func (l *local) close() error {
	l.mu.Lock()
	l.closed = true
	listener := l.listener
	l.mu.Unlock()
	if listener == nil {
		return nil
	}
	return errors.Join(listener.Close(), l.senders.close())
}

// localConn is a session as the relay sees it: from the client's address.
type localConn struct {
	transport.Conn
	client net.Addr
}

// RemoteAddr implements [transport.Conn].
func (c *localConn) RemoteAddr() net.Addr { return c.client }
