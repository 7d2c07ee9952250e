package web

import (
	"cmp"
	"net"
	"net/netip"
	"sync"

	"sluice/transport"
)

// A sixteenth of all connections, as of sessions, so that a few addresses cannot keep others out. A browser has one, or
// six if it does not speak HTTP/2.
const (
	defaultMaxConnections = 1024
	defaultMaxPerSource   = 64
)

// limitedListener closes the connections that are too many, in all or of one source address.
type limitedListener struct {
	net.Listener
	max, maxPerSource int

	mu                         sync.Mutex
	open                       int
	of                         map[netip.Prefix]int
	refusedTotal, refusedAtOne uint64
}

func newLimitedListener(l net.Listener, maxOpen, maxPerSource int) *limitedListener {
	return &limitedListener{
		Listener: l, max: cmp.Or(maxOpen, defaultMaxConnections),
		maxPerSource: cmp.Or(maxPerSource, defaultMaxPerSource), of: make(map[netip.Prefix]int),
	}
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := transport.SourceOf(c.RemoteAddr())
		if l.admit(source) {
			return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		_ = c.Close()
	}
}

func (l *limitedListener) admit(source netip.Prefix) bool {
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

func (l *limitedListener) leave(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.of[source]--; l.of[source] == 0 {
		delete(l.of, source)
	}
}

// refused returns how many connections were refused because of either limit.
func (l *limitedListener) refused() (total, source uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusedTotal, l.refusedAtOne
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
