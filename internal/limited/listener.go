package limited

import (
	"errors"
	"net"
	"net/netip"
	"sync"

	"sluice/transport"
)

// Listener closes the connections that are too many, in all or of one source address.
type Listener struct {
	net.Listener
	max, maxPerSource int

	mu                         sync.Mutex
	open                       int
	of                         map[netip.Prefix]int
	refusedTotal, refusedAtOne uint64
}

// NewListener returns a Listener that accepts at most maxOpen connections at a time, and maxPerSource of one source
// address.
func NewListener(l net.Listener, maxOpen, maxPerSource int) *Listener {
	return &Listener{Listener: l, max: maxOpen, maxPerSource: maxPerSource, of: make(map[netip.Prefix]int)}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := transport.SourceOf(c.RemoteAddr())
		if l.admit(source) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		_ = c.Close()
	}
}

func (l *Listener) admit(source netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open >= l.max:
		l.refusedTotal++
		return false
	case l.of[source] >= l.maxPerSource:
		l.refusedAtOne++
		return false
	}
	l.open++
	l.of[source]++
	return true
}

func (l *Listener) leave(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.of[source]--; l.of[source] == 0 {
		delete(l.of, source)
	}
}

// Refused returns how many connections were refused because of either limit.
func (l *Listener) Refused() (total, source uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusedTotal, l.refusedAtOne
}

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn
	leave func()
}

// CloseWrite ends the direction of writes, as [net.TCPConn.CloseWrite] does, if the listener's connections can.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}
