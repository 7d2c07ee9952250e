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
	"sluice/transport"
)

// local is a port on the loopback interface for sessions of this process with itself: see Server.DialFor.
type local struct {
	server *Server

	mu          sync.Mutex
	listener    *transport.Listener // nil before it is needed
	certificate []byte              // SHA-256
	senders     linkSenders
	clients     map[netip.AddrPort]net.Addr // by the UDP address that their session is dialed from
	closed      bool
}

// DialFor opens a session with this relay on behalf of a client of another protocol. To the relay it is a session from
// the client's address: permissions, quotas and metrics are the client's. With no client it is a session of the relay
// itself, which may subscribe to all tracks ([relay.Relay.ServeOwn]).
func (s *Server) DialFor(ctx context.Context, client net.Addr) (transport.Conn, error) {
	return s.local.dialFor(ctx, client)
}

func (l *local) dialFor(ctx context.Context, client net.Addr) (transport.Conn, error) {
	to, err := l.open()
	if err != nil {
		return nil, fmt.Errorf("open a port for sessions of other protocols: %w", err)
	}
	var from netip.AddrPort
	conn, err := transport.Dial(ctx, "moqt://"+to.String()+"/", transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: l.certificate, Limits: linkLimits,
		// The address is known before the first packet leaves, so nobody else's packet can come first.
		ListenUDP: func(network string, _ *net.UDPAddr) (*net.UDPConn, error) {
			c, err := net.ListenUDP(network, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err == nil {
				from = udpAddress(c.LocalAddr())
				l.add(from, client)
			}
			return c, err
		},
	})
	if err != nil {
		l.take(from)
		return nil, err
	}
	return conn, nil
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
	l.certificate, l.senders, l.clients = hash[:], linkSenders{server: l.server}, make(map[netip.AddrPort]net.Addr)
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
		client, dialed := l.take(udpAddress(conn.RemoteAddr()))
		if !dialed {
			_ = conn.CloseWithError(uint64(moqt.SessionUnauthorized), "") // fails only if it has ended already
			continue
		}
		if client == nil {
			l.server.tasks.Go(func() { l.server.serveOwn(conn) })
		} else {
			l.server.tasks.Go(func() { l.server.serveConn(&localConn{conn, client}) })
		}
	}
}

// udpAddress returns an address as a key: IPv4 has two forms otherwise.
func udpAddress(a net.Addr) netip.AddrPort {
	ap := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func (l *local) add(from netip.AddrPort, client net.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[from] = client
}

// take returns the client whose session comes from an address, once; nil stands for the relay itself.
func (l *local) take(from netip.AddrPort) (client net.Addr, dialed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	client, dialed = l.clients[from]
	delete(l.clients, from)
	return client, dialed
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
