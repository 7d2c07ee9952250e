package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
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
	cfg  ListenConfig
	log  *slog.Logger
	udp  packetConn
	tr   *quic.Transport
	quic *quic.EarlyListener
	wt   *wtServer

	conns    atomic.Int64 // QUIC connections, handshakes included
	sources  sources
	refused  refusals
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
	if err := l.listen(addr, tlsConf, cert); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l.wt = newWTServer(l)
	l.wg.Go(l.run)
	return l, nil
}

func (l *Listener) listen(addr string, tlsConf *tls.Config, cert *tls.Certificate) error {
	udpAddr, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	if l.udp, err = l.cfg.listenUDP(udpAddr); err != nil {
		return err
	}
	keys := deriveKeys(cert, placeOf(l.udp.LocalAddr().(*net.UDPAddr)))
	perSecond := max(0, cmp.Or(l.cfg.MaxUnvalidated, defaultMaxUnvalidated))
	unvalidated := rate.NewLimiter(rate.Limit(perSecond), perSecond)
	l.tr = &quic.Transport{
		Conn:                  l.udp,
		ConnectionIDLength:    ConnectionIDLength,
		ConnectionIDGenerator: l.cfg.ConnectionIDs,
		StatelessResetKey:     keys.reset,
		TokenGeneratorKey:     keys.token,
		VerifySourceAddress:   func(a net.Addr) bool { return l.sources.isSuspect(a) || !unvalidated.Allow() },
		ConnContext:           l.connContext,
	}
	if l.quic, err = l.tr.ListenEarly(tlsConf, l.cfg.quicConfig()); err != nil {
		l.udp.Close()
	}
	return err
}

// packetConn is a UDP socket.
type packetConn interface {
	quic.OOBCapablePacketConn
	WriteMsgUDPAddrPort(b, oob []byte, addr netip.AddrPort) (n, oobn int, err error)
}

func (c *ListenConfig) listenUDP(addr *net.UDPAddr) (packetConn, error) {
	listen := c.ListenUDP
	if listen == nil {
		listen = net.ListenUDP
	}
	udp, err := listen("udp", addr)
	if err != nil || c.Coalesce == nil {
		return udp, err
	}
	return coalesce(udp, c.Coalesce)
}

// connContext limits the number of connections, and gives each its hooks.
func (l *Listener) connContext(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	if l.conns.Add(1) > int64(cmp.Or(l.cfg.MaxConnections, defaultMaxConnections)) {
		l.conns.Add(-1)
		l.refused.total.Add(1)
		return nil, errors.New("too many connections")
	}
	if !l.sources.add(client.RemoteAddr) {
		l.conns.Add(-1)
		l.refused.source.Add(1)
		return nil, errors.New("too many connections from this address")
	}
	context.AfterFunc(ctx, func() {
		l.sources.remove(client.RemoteAddr)
		l.conns.Add(-1)
	})
	if l.cfg.NewHooks != nil {
		ctx = quic.WithHooks(ctx, l.cfg.NewHooks(l.udp))
	}
	return ctx, nil
}

// refusals counts the connections that were refused.
type refusals struct{ total, source atomic.Uint64 }

// Refused returns how many connections were refused so far because of MaxConnections, and how many because of
// MaxConnectionsPerSource.
func (l *Listener) Refused() (total, source uint64) {
	return l.refused.total.Load(), l.refused.source.Load()
}

// run hands connections to HTTP/3 as soon as it can send SETTINGS, and to the application when they are established.
// It ends when the connections that were queued at Close are closed.
func (l *Listener) run() {
	for {
		qc, err := l.quic.Accept(context.Background())
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

// Addr returns the address in use.
func (l *Listener) Addr() net.Addr { return l.udp.LocalAddr() }

// PacketConn returns the UDP socket, for senders that share it. They must neither read from it nor close it.
func (l *Listener) PacketConn() net.PacketConn { return l.udp }

// Close ends all sessions with code 0 and frees the port. It takes up to a second, to tell the peers.
func (l *Listener) Close() error {
	l.close(ErrListenerClosed)
	err := l.quic.Close()
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
	return errors.Join(err, l.tr.Close(), l.udp.Close())
}
