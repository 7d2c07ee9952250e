package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/internal/keep"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// LinkTarget is how other processes of this user reach the private port of a server, to make a [relay.Link]. It is
// secret.
type LinkTarget struct {
	Address     netip.AddrPort `json:"address"`
	Certificate []byte         `json:"certificate"` // SHA-256
	Secret      []byte         `json:"secret"`
}

// links makes links with the other processes of a relay: those that this one has replaced, and those that replace it.
type links struct {
	dial func(context.Context, string, transport.ClientConfig) (transport.Conn, error)
	ctx  context.Context // done when the private port is closed
	end  context.CancelFunc

	mu     sync.Mutex
	port   *linkPort                     // nil before it is needed
	dialed map[netip.AddrPort]LinkTarget // of links that this process has made
	closed bool
}

func newLinks() *links {
	l := &links{dial: transport.Dial, dialed: make(map[netip.AddrPort]LinkTarget)}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// set notes whether there is a link that this process has made.
func (l *links) set(t LinkTarget, linked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if linked {
		l.dialed[t.Address] = t
	} else {
		delete(l.dialed, t.Address)
	}
}

// close closes the private port. Links that are lost are not dialed again.
func (l *links) close() error {
	l.mu.Lock()
	l.closed = true
	l.end()
	p := l.port
	l.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.close()
}

// LinkTargets returns how another process makes links with this one, and with those that this one has links with. It
// opens the private port.
func (s *Server) LinkTargets() ([]LinkTarget, error) {
	l := s.links
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the relay has ended")
	}
	if l.port == nil {
		p, err := openLinkPort(s)
		if err != nil {
			return nil, fmt.Errorf("open a port for other processes of the relay: %w", err)
		}
		l.port = p
		s.tasks.Go(p.accept)
	}
	return append([]LinkTarget{l.port.target}, slices.Collect(maps.Values(l.dialed))...), nil
}

// LinkTo makes links with other processes of the relay, as their [Server.LinkTargets] say. It returns when they have
// answered, or the context is done; those that do not answer are logged. A link lasts until one of the two ends: if it
// is lost, it is made anew.
func (s *Server) LinkTo(ctx context.Context, targets []LinkTarget) {
	answered := make(chan struct{}, len(targets))
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
	links.set(k.target, false)
	k.answered()
	if err != nil && links.ctx.Err() == nil {
		k.log.Warn("another process of the relay does not answer any more", "err", err)
	}
}

// dial opens a session for the link.
func (k *linkKeeper) dial(ctx context.Context, url string) (*keep.Session, error) {
	s := k.server
	senders := linkSenders{server: s, client: true}
	conn, err := s.links.dial(ctx, url, transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: k.target.Certificate, NewHooks: senders.newHooks,
		Limits: linkLimits, ListenUDP: s.cfg.ListenLink,
	})
	if err != nil {
		return nil, errors.Join(err, senders.close())
	}
	closeSenders := func() error {
		<-conn.Context().Done()
		return senders.close()
	}
	l, err := s.relay.NewLink(conn, session.Client, k.target.Secret)
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
	k.server.links.set(k.target, e == keep.Connected)
	switch {
	case e == keep.Connected:
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
