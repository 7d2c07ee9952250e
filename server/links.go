package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
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
	mu     sync.Mutex
	port   *linkPort                  // nil before it is needed
	dialed map[*relay.Link]LinkTarget // links that this process has made
	closed bool
}

func newLinks() *links {
	return &links{dialed: make(map[*relay.Link]LinkTarget)}
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

// close closes the private port.
func (l *links) close() error {
	l.mu.Lock()
	l.closed = true
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
// answered, or the context is done; those that do not answer are logged. A link lasts until one of the two ends.
func (s *Server) LinkTo(ctx context.Context, targets []LinkTarget) {
	var answered sync.WaitGroup
	for _, t := range targets {
		answered.Add(1)
		s.tasks.Go(func() {
			if err := s.linkTo(ctx, t, sync.OnceFunc(answered.Done)); err != nil {
				s.log.Warn("no link with another process of the relay: its publishers do not reach subscribers here",
					"address", t.Address, "err", err)
			}
		})
	}
	answered.Wait()
}

// linkTo makes a link, and serves it until it ends. It calls answered when the other process has answered, or does not.
func (s *Server) linkTo(ctx context.Context, t LinkTarget, answered func()) error {
	defer answered()
	senders := linkSenders{server: s, client: true}
	defer senders.close()
	conn, err := transport.Dial(ctx, "moqt://"+t.Address.String()+"/", transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: t.Certificate, NewHooks: senders.newHooks, Limits: linkLimits,
	})
	if err != nil {
		return err
	}
	defer func() { <-conn.Context().Done() }() // before the senders are closed
	l, err := s.relay.NewLink(conn, session.Client, t.Secret)
	if err != nil {
		return errors.Join(err, conn.CloseWithError(uint64(moqt.SessionInternalError), ""))
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	select {
	case err = <-ended:
		return err
	case <-l.Ready():
	}
	s.links.add(l, t)
	defer s.links.remove(l)
	s.log.Info("linked with another process of the relay", "address", t.Address)
	answered()
	return <-ended
}
