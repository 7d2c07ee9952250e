package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/fastpath"
	"sluice/media"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// Server is a relay with its UDP port and its media senders. Its methods may be called on any goroutine.
type Server struct {
	cfg      Config
	listener *transport.Listener
	log      *slog.Logger
	tasks    sync.WaitGroup
	stop     context.CancelFunc // ends the tasks that are not sessions

	*links    // with other processes
	*local    // sessions with itself
	upstreams upstreams
	mesh      *mesh // nil: not in a cluster; set before Serve
	metrics
	delayMeter

	// Connections may arrive before Listen returns. They wait until ready is closed; after that, the fields below are
	// constant. loop is nil if Listen fails.
	ready      chan struct{}
	relay      *relay.Relay
	loop       *media.Loop
	handler    http.Handler // nil: none
	fastPath   kernel
	processors *processors // nil: not adapted
}

// Listen opens the port. Connections are accepted by Serve.
func Listen(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Logger, stop: func() {}, ready: make(chan struct{})}
	s.links, s.local, s.upstreams.server, s.metrics.server = newLinks(s), newLocal(s), s, s
	s.delayMeter = delayMeter{server: s, measure: s.measureBoth}
	t := cfg.Transport
	t.Protocols, t.NewHooks = moqt.ALPNs(), s.newHooks
	t.MaxConnectionsPerSource, t.Exempt = cfg.Relay.PerAddress.Sessions, cfg.Relay.Exempt
	t.Coalesce = func(socket int) func() time.Duration { return (&sendWatch{server: s, socket: socket}).look }
	if cfg.NewHandler != nil {
		t.Handler = http.HandlerFunc(s.answer)
	}
	var err error
	if s.listener, err = transport.Listen(cfg.Listen, t); err != nil {
		return nil, err
	}
	err = s.prepare()
	close(s.ready)
	if err != nil {
		return nil, errors.Join(err, s.listener.Close(), s.fastPath.close())
	}
	return s, nil
}

// prepare makes all parts that connections need.
func (s *Server) prepare() (err error) {
	fast := s.cfg.FastPath
	fast.Dials = fast.Dials || len(s.cfg.Upstream.Routes) > 0
	if s.fastPath.FastPath, err = openFastPath(fast, s.cfg.Rule, s.listener.Addr().(*net.UDPAddr), s.log); err != nil {
		return err
	}
	relayConfig, loopConfig := s.cfg.Relay, media.LoopConfig{Logger: s.log}
	if s.cfg.Rule != nil {
		loopConfig.Rule = s.cfg.Rule
	}
	relayConfig.OriginNeedsProof = relayConfig.OriginNeedsProof || s.cfg.Transport.Mutual != nil
	if f := s.FastPath(); f != nil {
		relayConfig.FastPath, loopConfig.Forwarder = f, f
	}
	if s.relay, err = relay.New(relayConfig); err != nil {
		return err
	}
	if s.loop, err = media.NewLoop(loopConfig, s.listener.PacketConns()...); err != nil {
		return err
	}
	if s.cfg.AdaptRuntime {
		s.processors = newProcessors(time.Now())
	}
	if s.cfg.NewHandler != nil {
		s.handler, err = s.cfg.NewHandler(s)
	}
	return err
}

// answer answers an HTTP/3 request that does not open a session.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	<-s.ready
	if s.handler != nil { // Listen has not failed
		s.handler.ServeHTTP(w, r)
	}
}

// newHooks makes the media sender of a connection. The fast path has room for half as many of one source as for all.
func (s *Server) newHooks(socket net.PacketConn, own int) quic.Hooks {
	<-s.ready
	if s.loop == nil {
		return nil // Listen returns the reason
	}
	cfg := s.senderConfig(socket, false)
	cfg.Apart = own > (s.cfg.FastPath.MaxConnections+1)/2
	return s.loop.NewSender(cfg).Hooks()
}

// senderConfig returns the configuration of the media sender of a connection, which has that socket, and which the
// server has dialed or accepted.
func (s *Server) senderConfig(socket net.PacketConn, dialed bool) media.SenderConfig {
	sender := media.SenderConfig{
		Socket: socket, Client: dialed,
		NewController: s.cfg.NewController, AckTimeout: s.cfg.AckTimeout,
		MaxBehind: s.cfg.MaxBehind, MaxBehindBytes: s.cfg.MaxBehindBytes,
	}
	if s.FastPath() != nil {
		sender.MaxUDPPayloadSize = fastpath.MaxUDPPayloadSize + fastpath.HopGrowth
		if !dialed {
			sender.MaxUDPPayloadSize = s.upstreams.maxUDPPayloadSize()
		}
	}
	if s.cfg.NewDropPolicy != nil {
		sender.DropPolicy = s.cfg.NewDropPolicy()
	}
	return sender
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() *net.UDPAddr { return s.listener.Addr().(*net.UDPAddr) }

// Handler returns what Config.NewHandler has made, for servers beside this one.
func (s *Server) Handler() http.Handler { return s.handler }

// Certificate returns what the server shows to a client, as [tls.Config] wants it, for the same servers.
func (s *Server) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.listener.Certificate(hello)
}

// Relay returns the relay, whose settings may be changed while it runs.
func (s *Server) Relay() *relay.Relay { return s.relay }

// FastPath returns the kernel's programs, or nil if they are not attached.
func (s *Server) FastPath() *fastpath.FastPath { return s.fastPath.FastPath }

// Rule returns the operator's rule, or nil.
func (s *Server) Rule() *fastpath.Rule { return s.cfg.Rule }

// Serve accepts connections and serves them until the context is done. After that the relay turns new sessions away,
// until Drain has closed the port.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	s.tasks.Go(func() { failed <- s.accept() })
	sweep, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.tasks.Go(func() { s.relay.Run(sweep) })
	if err := s.upstreams.keepAll(); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (s *Server) accept() error {
	for {
		conn, err := s.listener.Accept(context.Background())
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		s.tasks.Go(func() { s.serveConn(conn) })
	}
}

func (s *Server) serveConn(conn transport.Conn) {
	s.logEnd(conn, s.relay.Serve(context.Background(), conn))
}

func (s *Server) logEnd(conn transport.Conn, err error) {
	if err != nil {
		s.log.Debug("session failed", "peer", conn.RemoteAddr(), "err", err)
	}
}

// Drain asks all peers to move on (GOAWAY), to the relay at uri unless that is empty. It waits until they have left, at
// most for timeout, and then closes the port and everything else. It is called once, after Serve.
func (s *Server) Drain(uri string, timeout time.Duration) error {
	return s.drain(context.Background(), timeout, false, func(ctx context.Context) { s.relay.Drain(ctx, uri, timeout) })
}

// Retire is Drain for a server that another process has replaced at its port. It asks only those peers to move for
// whose MOQT_IMPLEMENTATION asks returns true. When the context is done, it closes the sessions that are left.
func (s *Server) Retire(ctx context.Context, timeout time.Duration, asks func(implementation string) bool) error {
	return s.drain(ctx, timeout, true, func(ctx context.Context) {
		s.awaitHandshakes(ctx)
		s.relay.DrainSome(ctx, "", timeout, asks)
	})
}

const (
	// handshakesLast is how long a server that was replaced still takes sessions, at most.
	handshakesLast = 10 * time.Second
	// handshakesLook is how often it looks whether it has all.
	handshakesLook = 50 * time.Millisecond
)

// awaitHandshakes waits until the clients have sessions that have come before another process had the port: their
// packets still come to this one. The first look is not at once: the kernel or a socket may have a client's first
// packet. Connections without a session, such as those for the web page, have a limit.
func (s *Server) awaitHandshakes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handshakesLast)
	defer cancel()
	s.fastPath.await()
	for more := true; more && ctx.Err() == nil; more = s.listener.Connections() > s.relay.Established() {
		select {
		case <-time.After(handshakesLook):
		case <-ctx.Done():
		}
	}
}

func (s *Server) drain(ctx context.Context, timeout time.Duration, replaced bool, wait func(context.Context)) error {
	// Sessions end with GOAWAY_TIMEOUT by themselves; the margin is for their last messages.
	ctx, cancel := context.WithTimeout(ctx, timeout+time.Second)
	defer cancel()
	if s.mesh != nil {
		s.mesh.leave(replaced)
	}
	wait(ctx)
	s.delayMeter.end()
	err := errors.Join(s.links.close(), s.local.port.close(), s.listener.Close(), s.loop.Close())
	s.stop()
	s.tasks.Wait()
	return errors.Join(err, s.fastPath.close())
}

// Activity describes what the server does. It has delays measured, see [Server.Delays].
func (s *Server) Activity() (a Activity, err error) {
	a = Activity{
		Sessions: s.relay.OpenSessions(), Overview: s.relay.Overview(), Media: s.loop.Stats(),
		Guests: s.relay.Guests(), Upstreams: s.upstreams.status(),
	}
	if a.Delays, err = s.Delays(); err != nil {
		return a, err
	}
	if a.FastPath, err = s.fastPath.counts(); err != nil {
		return a, err
	}
	if s.mesh != nil {
		status := s.mesh.node.Status()
		a.Cluster = &status
	}
	return a, nil
}

// Status describes the server's sessions and its fast path.
func (s *Server) Status() (st Status, err error) {
	st.Sessions, st.Guests, st.Upstreams = s.relay.Sessions(), s.relay.Guests(), s.upstreams.status()
	if s.cfg.Rule != nil {
		st.Policy = s.cfg.Rule.String()
	}
	if st.FastPath, err = s.fastPath.counts(); err != nil {
		return st, err
	}
	if s.cfg.Draining != nil {
		if st.Draining, err = s.cfg.Draining(); err != nil {
			return st, err
		}
	}
	if s.cfg.Arrivals != nil {
		st.Sockets, err = s.cfg.Arrivals()
	}
	return st, err
}

// ServeStatus answers a request with the server's status.
func (s *Server) ServeStatus(w http.ResponseWriter, _ *http.Request) {
	st, err := s.Status()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, st)
}
