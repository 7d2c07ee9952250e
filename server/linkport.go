package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

const (
	// maxLinkConnections bounds what other programs on this machine can open before they fail to show the secret.
	maxLinkConnections = 64
	// linkCertificateValidity is longer than a process lives.
	linkCertificateValidity = 10 * 365 * 24 * time.Hour
)

// linkLimits are the transport's limits of a link, which carries the tracks of many sessions.
var linkLimits = transport.Limits{
	MaxIncomingStreams: 1 << 16, MaxIncomingUniStreams: 1 << 16, MaxConnWindow: 64 << 20,
	HandshakeTimeout: 5 * time.Second,
}

// linkPort is the private port.
type linkPort struct {
	server   *Server
	listener *transport.Listener
	senders  linkSenders
	target   LinkTarget
}

func openLinkPort(s *Server) (*linkPort, error) {
	cert, err := transport.SelfSignedCertificate(linkCertificateValidity)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(cert.Certificate[0])
	p := &linkPort{server: s, senders: linkSenders{server: s}}
	p.target = LinkTarget{Certificate: hash[:], Secret: []byte(rand.Text())}
	p.listener, err = transport.Listen("127.0.0.1:0", transport.ListenConfig{
		Certificate: &cert, Protocols: moqt.ALPNs(), NewHooks: p.senders.newHooks, Limits: linkLimits,
		MaxConnections: maxLinkConnections, Logger: s.log, Sockets: p.listen,
	})
	if err != nil {
		return nil, err
	}
	p.target.Address = p.listener.Addr().(*net.UDPAddr).AddrPort()
	return p, nil
}

// listen opens the socket of the port.
func (p *linkPort) listen(local *net.UDPAddr) ([]transport.Socket, error) {
	c, err := p.server.cfg.ListenLink("udp", local)
	return []transport.Socket{{Conn: c}}, err
}

// accept serves the links of processes that replace this one.
func (p *linkPort) accept() {
	s := p.server
	for {
		conn, err := p.listener.Accept(context.Background())
		if err != nil {
			return // closed
		}
		s.tasks.Go(func() {
			l, err := s.relay.NewLink(conn, session.Server, p.target.Secret)
			if err != nil {
				_ = conn.CloseWithError(uint64(moqt.SessionInternalError), "") // fails only if it has ended already
			} else {
				err = l.Run(context.Background())
			}
			if err != nil {
				s.log.Debug("link failed", "peer", conn.RemoteAddr(), "error", err) // the other process warns
			}
		})
	}
}

// close ends all links of the port.
func (p *linkPort) close() error { return errors.Join(p.listener.Close(), p.senders.close()) }

// linkSenders makes the media senders of the connections of a socket.
type linkSenders struct {
	server *Server
	client bool // they have dialed
	once   sync.Once
	loop   *media.Loop
}

func (f *linkSenders) newHooks(pc net.PacketConn) quic.Hooks {
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
		NewController: s.cfg.NewController, Events: s.relay.Events(), AckTimeout: s.cfg.AckTimeout,
		Client: f.client,
	})
}

// close stops the senders. The connections have ended.
func (f *linkSenders) close() error {
	if f.loop == nil {
		return nil
	}
	return f.loop.Close()
}
