package rtsp

import (
	"bytes"
	"errors"
	"math"
	"net"
	"sync/atomic"
	"time"
)

// untunneled is a listener whose connections do not carry HTTP. The library would serve RTSP within HTTP and WebSocket
// to any page that a browser shows, wherever it comes from. It would also wait without end for the first bytes, and for
// a handshake of TLS: they have to come in time.
type untunneled struct {
	net.Listener
	wait time.Duration
}

func (l untunneled) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_ = c.SetReadDeadline(time.Now().Add(l.wait)) // until the library sets another; if it fails, so does Read
	return &rtspConn{Conn: c}, nil
}

// rtspConn is a connection whose first request is not one of HTTP. The request may come in several parts, so it looks
// at as many bytes as tell.
type rtspConn struct {
	net.Conn
	begin []byte // bytes read, until they tell
	known bool   // that it is RTSP

	writes, written atomic.Uint64 // calls of Write that have begun, and that have returned
	shut            atomic.Bool   // nothing more is sent
}

var errTunnel = errors.New("RTSP within HTTP is not served")

// methods are the HTTP methods that begin a tunnel. RTSP has GET_PARAMETER.
var methods = [][]byte{[]byte("GET "), []byte("POST ")}

// Read implements [net.Conn].
func (c *rtspConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.known {
		return n, err
	}
	c.begin = append(c.begin, b[:min(n, 8)]...)
	c.known = true
	for _, m := range methods {
		if bytes.HasPrefix(c.begin, m) {
			return 0, errTunnel
		}
		c.known = c.known && !bytes.HasPrefix(m, c.begin)
	}
	return n, err
}

// Write implements [net.Conn]. What the library answers after the farewell is for nobody: an error would end the
// connection too early.
func (c *rtspConn) Write(b []byte) (int, error) {
	if c.shut.Load() {
		return len(b), nil
	}
	c.writes.Add(1)
	defer c.written.Add(1)
	return c.Conn.Write(b)
}

// A player whose stream has ended keeps its session while packets of its queue go out by TCP: its queue is empty when
// nothing has been written for lull. Then the connection ends in one direction, until the player has read all and
// leaves. A connection that is closed is reset, and loses bytes on their way, as soon as the player reports something.
// All of that takes farewell at most.
const (
	lull     = time.Second
	farewell = 10 * time.Second
)

// bidFarewell waits until the player has left, or done. It reports false if that takes too long.
func (c *rtspConn) bidFarewell(done <-chan struct{}) bool {
	over := time.NewTimer(farewell)
	defer over.Stop()
	for before := uint64(math.MaxUint64); c.writes.Load() != before; {
		before = c.written.Load() // a peer that does not read for a time blocks a call of Write
		select {
		case <-time.After(lull):
		case <-over.C:
			return false
		case <-done:
			return true
		}
	}
	c.shut.Store(true)
	if w, ok := c.Conn.(interface{ CloseWrite() error }); !ok || w.CloseWrite() != nil {
		return true // it cannot be waited for
	}
	select {
	case <-over.C:
		return false
	case <-done:
		return true
	}
}
