package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/media"
	"sluice/moqt"
	"sluice/transport"
)

// privateValidity is longer than a process lives.
const privateValidity = 10 * 365 * 24 * time.Hour

// privateLimits are the transport's limits of a session that carries the tracks of many others. They end it before a
// FETCH gives up that waits for a process that has crashed, and not while a machine pauses for a moment.
var privateLimits = transport.Limits{
	MaxIncomingStreams: 1 << 16, MaxIncomingUniStreams: 1 << 16, MaxConnWindow: 64 << 20,
	HandshakeTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second,
}

// privatePort is a port on the loopback interface, for sessions of the relay with itself. It is opened when needed.
type privatePort struct {
	server *Server
	config transport.ListenConfig // what Server does not set for all
	accept func(transport.Conn)

	mu          sync.Mutex
	listener    *transport.Listener // nil before it is needed
	certificate []byte              // SHA-256
	senders     privateSenders
	closed      bool
}

// open opens the port, once, and returns how to reach it.
func (p *privatePort) open() (to *net.UDPAddr, certificate []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, nil, errors.New("the relay has ended")
	case p.listener == nil:
		if err := p.listenLocked(); err != nil {
			return nil, nil, err
		}
	}
	return p.listener.Addr().(*net.UDPAddr), p.certificate, nil
}

func (p *privatePort) listenLocked() error {
	cert, err := transport.SelfSignedCertificate(privateValidity)
	if err != nil {
		return err
	}
	hash, cfg := sha256.Sum256(cert.Certificate[0]), p.config
	p.certificate, p.senders.server = hash[:], p.server
	cfg.Certificate, cfg.Protocols, cfg.Logger = &cert, moqt.ALPNs(), p.server.log
	cfg.NewHooks = func(pc net.PacketConn, _ int) quic.Hooks { return p.senders.newHooks(pc) }
	cfg.Limits = privateLimits
	cfg.Sockets = func(local *net.UDPAddr) ([]transport.Socket, error) {
		c, err := p.server.cfg.ListenLink("udp", local)
		return []transport.Socket{{Conn: c}}, err
	}
	l, err := transport.Listen("127.0.0.1:0", cfg)
	if err != nil {
		return err
	}
	p.listener = l
	p.server.tasks.Go(func() {
		for {
			conn, err := l.Accept(context.Background())
			if err != nil {
				return // closed
			}
			p.accept(conn)
		}
	})
	return nil
}

// close ends all sessions of the port.
func (p *privatePort) close() error {
	p.mu.Lock()
	p.closed = true
	l := p.listener
	p.mu.Unlock()
	if l == nil {
		return nil
	}
	return errors.Join(l.Close(), p.senders.close())
}

// privateSenders makes the media senders of the connections of a socket that is not the server's.
type privateSenders struct {
	server *Server
	client bool // they have dialed
	once   sync.Once
	loop   *media.Loop
}

func (f *privateSenders) newHooks(pc net.PacketConn) quic.Hooks {
	s := f.server
	f.once.Do(func() {
		var err error
		if f.loop, err = media.NewLoop(media.LoopConfig{Logger: s.log}, pc); err != nil {
			s.log.Error("links cannot send media", "err", err)
		}
	})
	if f.loop == nil {
		return nil
	}
	return f.loop.NewSender(media.SenderConfig{
		NewController: s.cfg.NewController, AckTimeout: s.cfg.AckTimeout, Client: f.client,
	}).Hooks()
}

// close stops the senders. The connections have ended.
func (f *privateSenders) close() error {
	if f.loop == nil {
		return nil
	}
	return f.loop.Close()
}
