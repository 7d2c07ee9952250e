package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"sluice/internal/keep"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// LinkTarget is how other processes of this user reach the private port of a server, to make a link: see
// [relay.Neighbors.NewLink]. It is secret.
type LinkTarget struct {
	Address     netip.AddrPort `json:"address"`
	Certificate []byte         `json:"certificate"` // SHA-256
	Secret      []byte         `json:"secret"`
}

// maxLinkConnections bounds what other programs on this machine can open before they fail to show the secret.
const maxLinkConnections = 64

// links makes links with the other processes of a relay: those that this one has replaced, and those that replace it.
type links struct {
	port   privatePort
	secret []byte // of the port
	dial   func(context.Context, string, transport.ClientConfig) (transport.Conn, error)
	ctx    context.Context // done when the private port is closed
	end    context.CancelFunc
	dialed sync.Map // LinkTarget by address, of links that this process has made
}

func newLinks(s *Server) *links {
	l := &links{secret: []byte(rand.Text()), dial: transport.Dial}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.port = privatePort{server: s, accept: l.accept, config: transport.ListenConfig{
		MaxConnections: maxLinkConnections,
	}}
	return l
}

// close closes the private port. Links that are lost are not dialed again.
func (l *links) close() error {
	l.end()
	return l.port.close()
}

// LinkTargets returns how another process makes links with this one, and with those that this one has links with. It
// opens the private port.
func (l *links) LinkTargets() ([]LinkTarget, error) {
	to, certificate, err := l.port.open()
	if err != nil {
		return nil, fmt.Errorf("open a port for other processes of the relay: %w", err)
	}
	targets := []LinkTarget{{to.AddrPort(), certificate, l.secret}}
	l.dialed.Range(func(_, t any) bool {
		targets = append(targets, t.(LinkTarget))
		return true
	})
	return targets, nil
}

// accept serves the link of a process that replaces this one.
func (l *links) accept(conn transport.Conn) {
	s := l.port.server
	s.tasks.Go(func() {
		link, err := s.relay.Neighbors().NewLink(conn, session.Server, l.secret)
		if err != nil {
			_ = conn.CloseWithError(uint64(moqt.SessionInternalError), "") // fails only if it has ended already
		} else {
			err = link.Run(context.Background())
		}
		if err != nil {
			s.log.Debug("link failed", "peer", conn.RemoteAddr(), "err", err) // the other process warns
		}
	})
}

// LinkTo makes links with other processes of the relay, as their [Server.LinkTargets] say. It returns when they have
// answered, or the context is done; those that do not answer are logged. A link lasts until one of the two ends: if it
// is lost, it is made anew.
func (l *links) LinkTo(ctx context.Context, targets []LinkTarget) {
	s, answered := l.port.server, make(chan struct{}, len(targets))
	for _, t := range targets {
		k := &linkKeeper{
			server: s, target: t, log: s.log.With("address", t.Address),
			answered: sync.OnceFunc(func() { answered <- struct{}{} }),
		}
		s.tasks.Go(k.run)
	}
	for range targets {
		select {
		case <-answered:
		case <-ctx.Done():
			return
		}
	}
}

// linkKeeper keeps a link with another process.
type linkKeeper struct {
	server   *Server
	target   LinkTarget
	log      *slog.Logger
	tried    bool   // there was an attempt
	answered func() // is called after the first attempt
}

// run makes the link, and makes it anew when it is lost.
func (k *linkKeeper) run() {
	links := k.server.links
	err := keep.Run(links.ctx, keep.Config{
		URL: "moqt://" + k.target.Address.String() + "/", Dial: k.dial, Note: k.note,
		Backoff: keep.Backoff{First: 100 * time.Millisecond, Last: 10 * time.Second, GiveUp: 5 * time.Minute},
		// Without an error one of the two processes has ended it.
		Final: func(err error) bool { return err == nil || errors.Is(err, keep.ErrEndedAtOnce) },
	})
	links.dialed.Delete(k.target.Address)
	k.answered()
	if err != nil && links.ctx.Err() == nil {
		k.log.Warn("another process of the relay does not answer any more", "err", err)
	}
}

// dial opens a session for the link.
func (k *linkKeeper) dial(ctx context.Context, url string) (*keep.Session, error) {
	s := k.server
	senders := privateSenders{server: s, client: true}
	conn, err := s.links.dial(ctx, url, transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: k.target.Certificate, NewHooks: senders.newHooks,
		Limits: privateLimits, ListenUDP: s.cfg.ListenLink,
	})
	if err != nil {
		return nil, errors.Join(err, senders.close())
	}
	closeSenders := func() error {
		<-conn.Context().Done()
		return senders.close()
	}
	l, err := s.relay.Neighbors().NewLink(conn, session.Client, k.target.Secret)
	if err != nil {
		return nil, errors.Join(err, conn.CloseWithError(uint64(moqt.SessionInternalError), ""), closeSenders())
	}
	return &keep.Session{Ready: l.Ready(), Run: func(ctx context.Context) error {
		defer closeSenders()
		return l.Run(ctx)
	}}, nil
}

// note notes and logs what happens.
func (k *linkKeeper) note(e keep.Event, _ string, err error) {
	dialed := &k.server.links.dialed
	dialed.Delete(k.target.Address)
	switch {
	case e == keep.Connected:
		dialed.Store(k.target.Address, k.target)
		k.log.Info("linked with another process of the relay")
	case e == keep.Lost:
		k.log.Warn("the link with another process of the relay was lost; trying again", "err", err)
	case !k.tried:
		k.log.Warn("no link with another process of the relay: its publishers do not reach subscribers here; "+
			"trying again", "err", err)
	}
	k.tried = true
	k.answered()
}
