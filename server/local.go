package server

import (
	"context"
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
	port   privatePort
	dialed sync.Map // *dialed by the UDP address that a session is dialed from, until it arrives
}

func newLocal(s *Server) *local {
	l := new(local)
	l.port = privatePort{server: s, accept: l.accept, config: transport.ListenConfig{
		MaxConnections: s.cfg.Transport.MaxConnections, MaxConnectionsPerSource: -1,
	}}
	return l
}

// dialed is a session that is on its way, and for whom.
type dialed struct {
	client   net.Addr
	audience *relay.Audience // nil: the session is the client's
	arrived  chan struct{}
}

// ownLimits are the limits of a session of the relay with itself, at the end that subscribes: it holds little, since
// packets take no time. Who dials one counts on that.
var ownLimits = transport.Limits{
	MaxIncomingUniStreams: 256, MaxStreamWindow: 1 << 20, MaxConnWindow: 1 << 20,
	HandshakeTimeout: privateLimits.HandshakeTimeout,
}

func (d *dialed) limits() transport.Limits {
	if d.audience != nil {
		return ownLimits
	}
	return privateLimits
}

// DialFor opens a session with this relay on behalf of a client of another protocol. To the relay it is a session from
// the client's address: permissions, quotas and metrics are the client's.
func (l *local) DialFor(ctx context.Context, client net.Addr) (transport.Conn, error) {
	return l.dial(ctx, &dialed{client: client, arrived: make(chan struct{})})
}

// DialOwn opens a session of this relay with itself, which may subscribe to what the guests of an audience may
// ([relay.Relay.ServeOwn]).
func (l *local) DialOwn(ctx context.Context, a *relay.Audience) (transport.Conn, error) {
	return l.dial(ctx, &dialed{audience: a, arrived: make(chan struct{})})
}

func (l *local) dial(ctx context.Context, d *dialed) (transport.Conn, error) {
	to, certificate, err := l.port.open()
	if err != nil {
		return nil, fmt.Errorf("open a port for sessions of other protocols: %w", err)
	}
	var from netip.AddrPort
	// Else whoever gets the address next would be taken for the client.
	defer func() { l.dialed.CompareAndDelete(from, d) }()
	conn, err := transport.Dial(ctx, "moqt://"+to.String()+"/", transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: certificate, Limits: d.limits(),
		// The address is known before the first packet leaves, so nobody else's packet can come first.
		ListenUDP: func(network string, _ *net.UDPAddr) (transport.UDPConn, error) {
			c, err := l.port.server.cfg.ListenLink(network, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err == nil {
				from = udpAddress(c.LocalAddr())
				l.dialed.Store(from, d)
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
		l.dialed.CompareAndDelete(from, d)                             // before the address is free
		_ = conn.CloseWithError(uint64(moqt.SessionInternalError), "") // fails only if it has ended already
		return nil, context.Cause(ctx)
	}
}

// accept serves a session that dial opens. Other programs on this machine get none.
func (l *local) accept(conn transport.Conn) {
	value, found := l.dialed.LoadAndDelete(udpAddress(conn.RemoteAddr()))
	if !found {
		_ = conn.CloseWithError(uint64(moqt.SessionUnauthorized), "") // fails only if it has ended already
		return
	}
	s, d := l.port.server, value.(*dialed)
	close(d.arrived)
	s.tasks.Go(func() {
		if d.audience != nil {
			s.logEnd(conn, s.relay.ServeOwn(context.Background(), conn, d.audience))
		} else {
			s.serveConn(&localConn{conn, d.client})
		}
	})
}

// udpAddress returns an address as a key: IPv4 has two forms otherwise.
func udpAddress(a net.Addr) netip.AddrPort {
	ap := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// localConn is a session as the relay sees it: from the client's address.
type localConn struct {
	transport.Conn
	client net.Addr
}

// RemoteAddr implements [transport.Conn].
func (c *localConn) RemoteAddr() net.Addr { return c.client }
