package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
	"sluice/transport"
)

const (
	// A link that is lost is dialed again, at first after minRedial, and each time after twice as long. When it was
	// lost redialFor ago, the other process counts as gone.
	minRedial = 100 * time.Millisecond
	maxRedial = 10 * time.Second
	redialFor = 5 * time.Minute
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
	port   *linkPort                  // nil before it is needed
	dialed map[*relay.Link]LinkTarget // links that this process has made
	closed bool
}

func newLinks() *links {
	l := &links{dial: transport.Dial, dialed: make(map[*relay.Link]LinkTarget)}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// add enters a link that this process has made.
func (l *links) add(link *relay.Link, target LinkTarget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialed[link] = target
}

func (l *links) remove(link *relay.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.dialed, link)
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
	var answered sync.WaitGroup
	for _, t := range targets {
		answered.Add(1)
		s.tasks.Go(func() { s.keepLink(ctx, t, sync.OnceFunc(answered.Done)) })
	}
	answered.Wait()
}

// keepLink makes a link, and makes it anew when it is lost. It calls answered when the other process has answered, or
// does not.
func (s *Server) keepLink(ctx context.Context, t LinkTarget, answered func()) {
	lost, wait := time.Now(), minRedial
	for first := true; ; first = false {
		linked, err := s.linkTo(ctx, t, answered)
		answered()
		switch {
		case err == nil: // one of the two has ended it
			return
		case linked:
			s.log.Warn("the link with another process of the relay was lost; trying again", "address", t.Address,
				"err", err)
			lost, wait = time.Now(), minRedial
		case first:
			s.log.Warn("no link with another process of the relay: its publishers do not reach subscribers here; "+
				"trying again", "address", t.Address, "err", err)
		case time.Since(lost) > redialFor:
			s.log.Warn("another process of the relay does not answer any more", "address", t.Address, "err", err)
			return
		}
		select {
		case <-time.After(wait):
		case <-s.links.ctx.Done():
			return
		}
		ctx, wait = s.links.ctx, min(2*wait, maxRedial)
	}
}

// linkTo makes a link, and serves it until it ends. It calls answered when the other process has answered, and returns
// whether it has.
func (s *Server) linkTo(ctx context.Context, t LinkTarget, answered func()) (linked bool, err error) {
	senders := linkSenders{server: s, client: true}
	defer senders.close()
	conn, err := s.links.dial(ctx, "moqt://"+t.Address.String()+"/", transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: t.Certificate, NewHooks: senders.newHooks, Limits: linkLimits,
		ListenUDP: s.cfg.ListenLink,
	})
	if err != nil {
		return false, err
	}
	defer func() { <-conn.Context().Done() }() // before the senders are closed
	l, err := s.relay.NewLink(conn, session.Client, t.Secret)
	if err != nil {
		return false, errors.Join(err, conn.CloseWithError(uint64(moqt.SessionInternalError), ""))
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	select {
	case err = <-ended:
		return false, err
	case <-l.Ready():
	}
	s.links.add(l, t)
	defer s.links.remove(l)
	s.log.Info("linked with another process of the relay", "address", t.Address)
	answered()
	return true, <-ended
}
