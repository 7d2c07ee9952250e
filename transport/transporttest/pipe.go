// Package transporttest connects two ends of a transport session in memory.
package transporttest

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/transport"
)

// PipeConfig describes a session. The zero value is the default.
type PipeConfig struct {
	Kind      transport.Kind
	Protocol  string // default: "moqt-18"
	Authority string // the server's end reports it on WebTransport
	Path      string
	// StreamWindow is how many unread bytes an end may send on a stream. Default: 64 KiB.
	StreamWindow int
	// MaxStreams and MaxUniStreams are how many streams each end may have open. Defaults: 256 and 1,024. Negative:
	// none.
	MaxStreams, MaxUniStreams int
	// Verified is whether the client has proved who it is.
	Verified bool
	// Client is the client's address. Default: 127.0.0.1:10000.
	Client *net.UDPAddr
}

const (
	connWindow      = 1 << 20 // unread bytes that an end may send
	maxDatagramSize = 1200
	datagramQueue   = 128 // datagrams that wait for their receiver before further ones are dropped
)

func (c PipeConfig) withDefaults() PipeConfig {
	c.Protocol = cmp.Or(c.Protocol, "moqt-18")
	c.StreamWindow = cmp.Or(c.StreamWindow, 64<<10)
	c.MaxStreams = cmp.Or(c.MaxStreams, 256)
	c.MaxUniStreams = cmp.Or(c.MaxUniStreams, 1024)
	c.Client = cmp.Or(c.Client, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10000})
	return c
}

// Pipe returns the two ends of a new session. Everything that one end sends reaches the other at once, except that
// streams wait for flow control. All waiting is on a condition variable, so the ends work with testing/synctest.
func Pipe(cfg PipeConfig) (client, server *Conn) {
	l := &link{cfg: cfg.withDefaults()}
	l.changed.L = &l.mu
	client, server = newConn(l, 0), newConn(l, 1)
	client.peer, server.peer = server, client
	if cfg.Kind == transport.WebTransport {
		server.authority, server.path = cfg.Authority, cfg.Path
	}
	return client, server
}

// link is the state that both ends share: one lock for everything is slow, but simple.
type link struct {
	cfg     PipeConfig
	mu      sync.Mutex
	changed sync.Cond
}

// wait waits until ready reports true, with mu held. It fails when the context is done.
func (l *link) wait(ctx context.Context, ready func() bool) error {
	stop := context.AfterFunc(ctx, l.broadcast)
	defer stop()
	for !ready() {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.changed.Wait()
	}
	return nil
}

func (l *link) broadcast() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}

// Conn is one end. It implements [transport.Conn].
type Conn struct {
	*link
	perspective     int64 // the lowest bit of the stream ids that this end opens (RFC 9000 §2.1)
	peer            *Conn
	authority, path string

	ctx    context.Context
	cancel context.CancelCauseFunc

	streams            // that this end has opened
	inFlight  int      // bytes sent that the peer has not read
	datagrams [][]byte // received
	paused    bool
	vanished  time.Time // when, if it has
	closed    *transport.SessionError
}

var _ transport.Conn = (*Conn)(nil)

func newConn(l *link, perspective int64) *Conn {
	c := &Conn{link: l, perspective: perspective}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.bidi = streamQueue{conn: c, firstID: perspective, limit: l.cfg.MaxStreams}
	c.uni = streamQueue{conn: c, firstID: perspective | 2, limit: l.cfg.MaxUniStreams}
	return c
}

// Pause makes this end receive nothing until Resume, like an application that has stopped reading.
func (c *Conn) Pause() { c.setPaused(true) }

// Resume ends a Pause.
func (c *Conn) Resume() { c.setPaused(false) }

func (c *Conn) setPaused(paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = paused
	c.changed.Broadcast()
}

// Vanish makes this end disappear without a word, like a process that is killed: it receives nothing any more, and does
// not answer Probe.
func (c *Conn) Vanish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused, c.vanished = true, time.Now()
}

// RTT implements [transport.Conn].
func (c *Conn) RTT() time.Duration { return 0 }

// Probe implements [transport.Conn].
func (c *Conn) Probe(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.wait(ctx, func() bool { return c.closed != nil || c.peer.vanished.IsZero() })
	if c.closed != nil {
		return c.closed
	}
	return err
}

// Qlog implements [transport.Conn].
func (c *Conn) Qlog() qlogwriter.Trace { return nil }

// Ping implements [transport.Conn]. Nothing comes of it: the end of a session is never lost here.
func (c *Conn) Ping() {}

// LastReceived implements [transport.Conn]. The other end sends something all the time, until it vanishes.
func (c *Conn) LastReceived() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer.vanished.IsZero() {
		return time.Now()
	}
	return c.peer.vanished
}

// Context implements [transport.Conn].
func (c *Conn) Context() context.Context { return c.ctx }

// CloseWithError implements [transport.Conn].
func (c *Conn) CloseWithError(code uint64, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil
	}
	for _, end := range []*Conn{c, c.peer} {
		end.closed = &transport.SessionError{Code: code, Remote: end != c, Reason: reason}
		end.bidi.abandon(end.closed)
		end.uni.abandon(end.closed)
		end.cancel(end.closed)
	}
	c.changed.Broadcast()
	return nil
}

// SendDatagram implements [transport.Conn].
func (c *Conn) SendDatagram(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed != nil:
		return c.closed
	case len(b) > maxDatagramSize:
		return transport.ErrDatagramTooLarge
	case len(c.peer.datagrams) < datagramQueue:
		c.peer.datagrams = append(c.peer.datagrams, append([]byte(nil), b...))
		c.changed.Broadcast()
	}
	return nil
}

// ReceiveDatagram implements [transport.Conn].
func (c *Conn) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.wait(ctx, func() bool { return c.closed != nil || len(c.datagrams) > 0 && !c.paused })
	switch {
	case c.closed != nil && (closedHere(c.closed) || len(c.datagrams) == 0):
		return nil, c.closed
	case c.closed == nil && err != nil:
		return nil, err
	}
	b := c.datagrams[0]
	c.datagrams = c.datagrams[1:]
	return b, nil
}

// Kind implements [transport.Conn].
func (c *Conn) Kind() transport.Kind { return c.cfg.Kind }

// Protocol implements [transport.Conn].
func (c *Conn) Protocol() string { return c.cfg.Protocol }

// Authority implements [transport.Conn].
func (c *Conn) Authority() string { return c.authority }

// Path implements [transport.Conn].
func (c *Conn) Path() string { return c.path }

// LocalAddr implements [transport.Conn].
func (c *Conn) LocalAddr() net.Addr {
	if c.perspective == 0 {
		return c.cfg.Client
	}
	return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10001}
}

// RemoteAddr implements [transport.Conn].
func (c *Conn) RemoteAddr() net.Addr { return c.peer.LocalAddr() }

// PeerIsVerified implements [transport.Conn].
func (c *Conn) PeerIsVerified() bool { return c.perspective == 1 && c.cfg.Verified }

// Hooks implements [transport.Conn].
func (c *Conn) Hooks() quic.Hooks { return nil }

// StreamPrefix implements [transport.Conn].
func (c *Conn) StreamPrefix() []byte { return nil }

// DatagramPrefix implements [transport.Conn].
func (c *Conn) DatagramPrefix() []byte { return nil }

// StreamErrorCode implements [transport.Conn].
func (c *Conn) StreamErrorCode(code uint64) uint64 { return code }

func (l *link) setDeadline(d *deadline, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.passed, d.timer = !t.IsZero() && !t.After(time.Now()), nil
	if t.IsZero() {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(t), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if d.timer == timer { // not a later deadline
			d.passed = true
			l.changed.Broadcast()
		}
	})
	d.timer = timer
}
