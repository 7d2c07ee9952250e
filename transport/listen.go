package transport

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/time/rate"
)

const (
	// ConnectionIDLength is the length of the connection IDs that clients send to a listener: enough to look
	// connections up without a client's address.
	ConnectionIDLength = 8

	protocolViolation = 0x3 // draft-ietf-moq-transport-18 §3.5
)

// Listener accepts raw QUIC connections and WebTransport sessions on one UDP port.
type Listener struct {
	cfg       ListenConfig
	log       *slog.Logger
	endpoints []*endpoint
	wt        *wtServer
	tls       *tls.Config

	conns    atomic.Int64 // QUIC connections, handshakes included
	sources  sources
	refused  refusals
	dials    atomic.Uint32 // connections that were tried
	accepted chan Conn
	ctx      context.Context // done when closed
	close    context.CancelCauseFunc
	wg       sync.WaitGroup

	mu       sync.Mutex          // guards what follows
	sessions map[Conn]*quic.Conn // until the connection is closed
}

// Listen listens on a UDP address, "host:port" or ":port".
func Listen(addr string, cfg ListenConfig) (*Listener, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l := &Listener{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()),
		accepted: make(chan Conn), sessions: make(map[Conn]*quic.Conn),
	}
	l.sources = sources{
		limit: cmp.Or(cfg.MaxConnectionsPerSource, defaultMaxConnectionsPerSource), exempt: cfg.Exempt,
		of: make(map[netip.Prefix]int),
	}
	l.ctx, l.close = context.WithCancelCause(context.Background())
	tlsConf, cert, err := serverTLS(&cfg, l.log)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l.tls = tlsConf
	if err := l.listen(addr, tlsConf, cert); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l.wt = newWTServer(l)
	for _, e := range l.endpoints {
		l.wg.Go(func() { l.run(e) })
	}
	return l, nil
}

func (l *Listener) listen(addr string, tlsConf *tls.Config, cert *tls.Certificate) error {
	udpAddr, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	sockets, err := l.cfg.openSockets(udpAddr)
	if err != nil {
		return err
	}
	keys := deriveKeys(cert, placeOf(sockets[0].Conn.LocalAddr().(*net.UDPAddr)))
	if keys.token == nil { // each endpoint takes the tokens of the others
		keys.token = new(quic.TokenGeneratorKey)
		_, _ = rand.Read(keys.token[:]) // never fails
	}
	perSecond := max(0, cmp.Or(l.cfg.MaxUnvalidated, defaultMaxUnvalidated))
	unvalidated := rate.NewLimiter(rate.Limit(perSecond), perSecond)
	verify := func(a net.Addr) bool { return l.sources.isSuspect(a) || !unvalidated.Allow() }
	for i := range sockets {
		e, oerr := l.newEndpoint(i, &sockets[i], keys, verify)
		if oerr == nil {
			e.quic, oerr = e.tr.ListenEarly(tlsConf, l.quicConfig())
			l.endpoints = append(l.endpoints, e)
		}
		err = errors.Join(err, oerr)
	}
	if err != nil {
		err = errors.Join(err, l.closeEndpoints())
	}
	return err
}

// quicConfig returns the configuration of connections. Connections from exempt sources may be relays, whose sessions
// carry data for many others. Those from a source that has many get fewer streams: each takes memory.
func (l *Listener) quicConfig() *quic.Config {
	conf := l.cfg.quicConfig()
	conf.Tracer = l.cfg.Inspection.Trace
	exempt := l.cfg.Limits
	exempt.MaxIncomingStreams = max(exempt.MaxIncomingStreams, exemptStreams)
	exempt.MaxIncomingUniStreams = max(exempt.MaxIncomingUniStreams, exemptStreams)
	exempt.MaxConnWindow = max(exempt.MaxConnWindow, exemptConnWindow)
	conf.GetConfigForClient = func(client *quic.ClientInfo) (*quic.Config, error) {
		c := conf.Clone()
		switch {
		case l.sources.isExempt(SourceOf(client.RemoteAddr)):
			c = exempt.quicConfig()
			c.Tracer = conf.Tracer
		case l.sources.limit >= 0 && l.sources.isSuspect(client.RemoteAddr):
			c.MaxIncomingUniStreams = min(c.MaxIncomingUniStreams, crowdUniStreams)
		}
		return c, nil
	}
	return conf
}

// newEndpoint makes the endpoint of a socket. All endpoints of a listener have the same keys: each takes the tokens of
// the others, and resets their connections. If it fails, the socket is closed.
func (l *Listener) newEndpoint(i int, s *Socket, keys serverKeys, verify func(net.Addr) bool) (*endpoint, error) {
	udp, err := l.cfg.packetConn(i, s)
	if err != nil {
		return nil, err
	}
	return &endpoint{udp: udp, tr: &quic.Transport{
		Conn:                  udp,
		ConnectionIDLength:    ConnectionIDLength,
		ConnectionIDGenerator: s.ConnectionIDs,
		StatelessResetKey:     keys.reset,
		ClosingPeriod:         ClosingPeriod,
		TokenGeneratorKey:     keys.token,
		VerifySourceAddress:   verify,
		ConnContext: func(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
			return l.connContext(ctx, client, udp)
		},
	}}, nil
}

// connContext limits the number of connections, and gives each its hooks.
func (l *Listener) connContext(ctx context.Context, client *quic.ClientInfo, udp UDPConn) (
	context.Context, error,
) {
	if l.conns.Add(1) > int64(cmp.Or(l.cfg.MaxConnections, defaultMaxConnections)) {
		l.conns.Add(-1)
		l.refused.total.Add(1)
		return nil, errors.New("too many connections")
	}
	own, ok := l.sources.add(client.RemoteAddr)
	if !ok {
		l.conns.Add(-1)
		l.refused.source.Add(1)
		return nil, errors.New("too many connections from this address")
	}
	context.AfterFunc(ctx, func() {
		l.sources.remove(client.RemoteAddr)
		l.conns.Add(-1)
	})
	if l.cfg.NewHooks != nil {
		ctx = quic.WithHooks(ctx, l.cfg.NewHooks(udp, own))
	}
	return l.cfg.Inspection.withRemote(ctx, client.RemoteAddr), nil
}

// refusals counts the connections that were refused.
type refusals struct{ total, source atomic.Uint64 }

// Refused returns how many connections were refused so far because of MaxConnections, and how many because of
// MaxConnectionsPerSource.
func (l *Listener) Refused() (total, source uint64) {
	return l.refused.total.Load(), l.refused.source.Load()
}

// Connections returns the number of QUIC connections that clients have opened, handshakes included.
func (l *Listener) Connections() int { return int(l.conns.Load()) }

// run hands connections of an endpoint to HTTP/3 as soon as it can send SETTINGS, and to the application when they are
// established. It ends when the connections that were queued at Close are closed.
func (l *Listener) run(e *endpoint) {
	for {
		qc, err := e.quic.Accept(context.Background())
		if err != nil {
			l.close(fmt.Errorf("%w: %w", ErrListenerClosed, err))
			return
		}
		l.wg.Go(func() {
			if proto := qc.ConnectionState().TLS.NegotiatedProtocol; proto == http3.NextProtoH3 {
				l.wt.serve(qc)
			} else {
				l.serveQUIC(qc, proto)
			}
		})
	}
}

func (l *Listener) serveQUIC(qc *quic.Conn, proto string) {
	select {
	case <-qc.HandshakeComplete():
	case <-qc.Context().Done():
		return
	case <-l.ctx.Done():
		_ = qc.CloseWithError(0, "")
		return
	}
	if !qc.ConnectionState().SupportsDatagrams.Remote {
		_ = qc.CloseWithError(protocolViolation, "support for DATAGRAM frames is required")
		return
	}
	l.deliver(newQUICSession(newSession(qc, proto, "", "")), qc)
}

// deliver waits until c is accepted, or has ended.
func (l *Listener) deliver(c Conn, qc *quic.Conn) {
	if !l.add(c, qc) {
		_ = c.CloseWithError(0, "")
		return
	}
	select {
	case l.accepted <- c:
	case <-c.Context().Done():
	case <-l.ctx.Done():
	}
}

// add records c, so that Close ends it. It returns false if Close was called before.
func (l *Listener) add(c Conn, qc *quic.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.sessions[c] = qc
	context.AfterFunc(qc.Context(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.sessions, c)
	})
	return true
}

// Accept waits for the next session. It fails with [ErrListenerClosed] after Close, and if the socket fails.
func (l *Listener) Accept(ctx context.Context) (Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Dial is the function [Dial] from the sockets of the listener, which it takes in turns. So packets of the other end
// come to the listener's port, and senders that share its sockets serve the session, too. ListenUDP of cfg is not used.
// The session ends with the listener, at the latest.
func (l *Listener) Dial(ctx context.Context, url string, cfg ClientConfig) (Conn, error) {
	open := func(ctx context.Context, addr *net.UDPAddr, tlsConf *tls.Config) (*quic.Conn, error) {
		e := l.endpoints[l.dials.Add(1)%uint32(len(l.endpoints))]
		return cfg.dialOn(ctx, e.tr, addr, tlsConf)
	}
	c, err := dialURL(ctx, url, &cfg, open)
	if err != nil {
		return nil, l.explainDial(err)
	}
	if !l.add(c, c.connection()) {
		_ = c.CloseWithError(0, "")
		return nil, ErrListenerClosed
	}
	return c, nil
}

// explainDial adds to an error of Dial what to do about it.
func (l *Listener) explainDial(err error) error {
	local := l.Addr().(*net.UDPAddr)
	if local.IP.IsLoopback() && strings.Contains(err.Error(), "sendmsg: invalid argument") {
		return fmt.Errorf("%w: from %s, where this relay listens, only programs on this machine can be reached", err,
			local.IP)
	}
	return err
}

// Certificate returns the certificate that the listener shows to a client, as [tls.Config] wants it: for servers beside
// the listener that show the same certificate.
func (l *Listener) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return l.tls.GetCertificate(hello)
}

// Addr returns the address in use.
func (l *Listener) Addr() net.Addr { return l.endpoints[0].udp.LocalAddr() }

// PacketConns returns the UDP sockets, for senders that share them. They must neither read from them nor close them.
func (l *Listener) PacketConns() (all []net.PacketConn) {
	for _, e := range l.endpoints {
		all = append(all, e.udp)
	}
	return all
}

// Close ends all sessions with code 0 and frees the port. It takes up to a second, to tell the peers.
func (l *Listener) Close() error {
	l.close(ErrListenerClosed)
	var err error
	for _, e := range l.endpoints {
		err = errors.Join(err, e.quic.Close())
	}
	l.mu.Lock()
	open := maps.Clone(l.sessions)
	l.mu.Unlock()
	var wg sync.WaitGroup
	for c, qc := range open {
		wg.Go(func() {
			_ = c.CloseWithError(0, "")
			<-qc.Context().Done()
		})
	}
	wg.Wait()
	err = errors.Join(err, l.wt.close())
	l.wg.Wait()
	return errors.Join(err, l.closeEndpoints())
}

func (l *Listener) closeEndpoints() error {
	var errs []error
	for _, e := range l.endpoints {
		errs = append(errs, e.tr.Close(), e.udp.Close())
	}
	return errors.Join(errs...)
}
