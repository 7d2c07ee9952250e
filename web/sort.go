package web

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// tlsHandshake is the first byte of a connection with TLS (RFC 8446 §5.1). HTTP begins with a letter.
const tlsHandshake = 0x16

// acceptPause is how long the sorter waits after a connection that could not be accepted.
const acceptPause = 100 * time.Millisecond

// sorter gives the connections of a listener to two others: with TLS, and without. Only clients on this machine may do
// without: nobody is between them and the relay, and browsers trust http://localhost as they trust https. So a page of
// a relay with a certificate of its own making needs no exception in the browser.
type sorter struct {
	from       net.Listener
	open       context.Context // done when the listener is closed
	tls, plain *sorted
}

func newSorter(from net.Listener) *sorter {
	open, end := context.WithCancel(context.Background())
	closeFrom := sync.OnceValue(func() error {
		end()
		return from.Close()
	})
	list := func() *sorted {
		return &sorted{addr: from.Addr(), conns: make(chan net.Conn), done: open.Done(), close: closeFrom}
	}
	return &sorter{from: from, open: open, tls: list(), plain: list()}
}

// run sorts until the listener is closed.
func (s *sorter) run() {
	var reading sync.WaitGroup
	defer reading.Wait()
	for {
		c, err := s.from.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			_ = s.tls.close()
			return
		case err != nil: // there are too many open files, or the client has gone
			s.pause()
			continue
		}
		if !isLocal(c.RemoteAddr()) {
			reading.Go(func() { s.tls.give(c) })
			continue
		}
		reading.Go(func() { s.sort(c) })
	}
}

// isLocal reports whether a client is on this machine.
func isLocal(addr net.Addr) bool {
	a, err := netip.ParseAddrPort(addr.String())
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// pause waits until a listener that has failed may work again.
func (s *sorter) pause() {
	select {
	case <-time.After(acceptPause):
	case <-s.tls.done:
	}
}

// sort reads the first byte of a connection.
func (s *sorter) sort(c net.Conn) {
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(headerTimeout)) // the server sets its own later
	defer context.AfterFunc(s.open, func() { _ = c.SetReadDeadline(time.Now()) })()
	if _, err := c.Read(first); err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to := s.plain
	if first[0] == tlsHandshake {
		to = s.tls
	}
	to.give(&begunConn{Conn: c, first: first})
}

// sorted is a listener whose connections come from a sorter.
type sorted struct {
	addr  net.Addr
	conns chan net.Conn
	done  <-chan struct{} // closed when the listener is
	close func() error
}

func (l *sorted) give(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		_ = c.Close()
	}
}

// Accept implements [net.Listener].
func (l *sorted) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]: it closes both.
func (l *sorted) Close() error { return l.close() }

// Addr implements [net.Listener].
func (l *sorted) Addr() net.Addr { return l.addr }

// begunConn is a connection with some bytes already read.
type begunConn struct {
	net.Conn
	first []byte
}

// Read implements [net.Conn].
func (c *begunConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
