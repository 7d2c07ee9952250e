package sim

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Parameters of TCP connections.
const (
	segmentSize = 1448
	window      = 32 << 10              // bytes that are on their way, or that nobody has read
	firstRetry  = 20 * time.Millisecond // beside a round trip, as by fast retransmission
	mostRetry   = 5 * time.Second
	giveUp      = 20 * time.Second // when a peer that does not answer is taken for dead
	backlog     = 128              // connections that nobody has accepted
)

// Stream is an end of a TCP connection of a Network. A lost segment is sent again after a while, and those behind it
// wait for it. It implements [net.Conn].
type Stream struct {
	network       *Network
	local, remote netip.AddrPort

	// Guarded by the network's mutex.
	peer        *Stream // nil: it is not connected yet
	connected   bool    // who dials has an answer
	dead        bool    // the host was killed
	closed      bool
	shut        bool          // nothing more is written
	writing     bool          // a Write has not ended: others wait, so that bytes of one call are together
	err         error         // why the connection has failed
	changed     chan struct{} // closed at the next change of anything here
	waits       []segment     // that are not on their way
	arrives     time.Time     // when the latest segment on its way arrives
	retry       time.Duration // after which a lost segment is sent again; 0: none is lost
	lost        time.Time     // when the oldest segment of waits was lost first
	sequence    uint32
	unread      int    // bytes that the peer has not read
	in          []byte // received
	ended       bool   // behind these bytes
	read, write deadline
}

// segment is a part of a stream. One without bytes opens or ends it.
type segment struct {
	data []byte
	open bool
}

// deadline is when a Read or Write fails.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (s *Stream) wrap(what string, err error) error {
	return &net.OpError{Op: what, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

// wakeLocked has Read and Write look again.
func (s *Stream) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits for a change.
func (s *Stream) await() {
	changed := s.changed
	s.network.mu.Unlock()
	<-changed
	s.network.mu.Lock()
}

// Read implements [net.Conn].
func (s *Stream) Read(b []byte) (int, error) {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, s.wrap("read", net.ErrClosed)
		case s.read.passed():
			return 0, s.wrap("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case len(s.in) > 0:
			n := copy(b, s.in)
			s.in = s.in[n:]
			s.creditLocked(n)
			return n, nil
		case s.err != nil:
			return 0, s.wrap("read", s.err)
		case s.ended:
			return 0, io.EOF
		}
		s.await()
	}
}

// creditLocked tells the peer that bytes were read.
func (s *Stream) creditLocked(n int) {
	if s.dead {
		return
	}
	l := s.network.link(s.local.Addr(), s.remote.Addr())
	s.network.pushLocked(packet{at: time.Now().Add(l.Delay), do: func() {
		s.peer.unread -= n
		s.peer.wakeLocked()
	}})
}

// Write implements [net.Conn].
func (s *Stream) Write(b []byte) (n int, err error) {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	for s.writing {
		s.await()
	}
	s.writing = true
	defer func() {
		s.writing = false
		s.wakeLocked()
	}()
	for n < len(b) {
		switch {
		case s.closed:
			return n, s.wrap("write", net.ErrClosed)
		case s.shut:
			return n, s.wrap("write", syscall.EPIPE)
		case s.write.passed():
			return n, s.wrap("write", os.ErrDeadlineExceeded)
		case s.err != nil:
			return n, s.wrap("write", s.err)
		case s.unread < window:
			data := bytes.Clone(b[n:min(len(b), n+segmentSize, n+window-s.unread)])
			s.waits = append(s.waits, segment{data: data})
			s.unread += len(data)
			n += len(data)
			s.pumpLocked()
			continue
		}
		s.await()
	}
	return n, nil
}

// pumpLocked sends the segments that wait, up to the first one that is lost.
func (s *Stream) pumpLocked() {
	n := s.network
	for len(s.waits) > 0 && s.retry == 0 && !s.dead && s.err == nil {
		next, now := s.waits[0], time.Now()
		l := n.link(s.local.Addr(), s.remote.Addr())
		l.MTU, l.Duplicate, l.Queue = 0, 0, time.Hour // a sender's window grows no further than the queue
		arrivals := n.pathLocked(s.local.Addr(), s.remote.Addr()).carry(&l, len(next.data)+40, now, n.rng)
		if len(arrivals) > 0 && arrivals[0].Before(s.arrives) {
			arrivals[0] = s.arrives
		}
		if n.watch != nil {
			n.watch(Packet{
				At: now, From: s.local, To: s.remote, Data: next.data, Stream: true, Sequence: s.sequence,
				Arrivals: arrivals,
			})
		}
		if len(arrivals) == 0 {
			s.againLocked(firstRetry+2*l.Delay, now)
			return
		}
		s.waits, s.arrives, s.lost = s.waits[1:], arrivals[0], time.Time{}
		s.sequence += uint32(len(next.data))
		n.pushLocked(packet{at: s.arrives, do: func() { s.arriveLocked(next) }})
	}
}

// againLocked sends a lost segment again after a wait, which grows with each try. After giveUp the connection fails.
func (s *Stream) againLocked(wait time.Duration, now time.Time) {
	if s.lost.IsZero() {
		s.lost = now
	} else {
		wait = min(wait<<min(int(now.Sub(s.lost)/wait), 4), mostRetry)
	}
	s.retry = wait
	s.network.pushLocked(packet{at: now.Add(wait), do: func() {
		if s.retry = 0; time.Since(s.lost) > giveUp {
			s.failLocked(syscall.ETIMEDOUT)
		}
		s.pumpLocked()
	}})
}

// arriveLocked takes a segment of s at the other end.
func (s *Stream) arriveLocked(p segment) {
	n, to := s.network, s.peer
	if to == nil {
		if to = n.acceptLocked(s); to != nil {
			to.waits = []segment{{open: true}}
			to.pumpLocked()
			return
		}
	}
	switch {
	case to == nil || to.dead:
		s.unansweredLocked()
	case p.open:
		to.connected = true
		to.wakeLocked()
	case to.closed && len(p.data) > 0:
		s.resetLocked()
	case len(p.data) == 0:
		to.ended = true
		to.wakeLocked()
	default:
		to.in = append(to.in, p.data...)
		to.wakeLocked()
	}
}

// unansweredLocked has nobody answer a segment: a host that lives refuses it, and a dead one says nothing.
func (s *Stream) unansweredLocked() {
	if s.network.livesLocked(s.remote.Addr()) {
		s.resetLocked()
		return
	}
	s.network.pushLocked(packet{at: time.Now().Add(giveUp), do: func() { s.failLocked(syscall.ETIMEDOUT) }})
}

// resetLocked ends the connection of s, when it hears of it.
func (s *Stream) resetLocked() {
	err := syscall.ECONNRESET
	if s.peer == nil {
		err = syscall.ECONNREFUSED
	}
	l := s.network.link(s.remote.Addr(), s.local.Addr())
	s.network.pushLocked(packet{at: time.Now().Add(l.Delay), do: func() { s.failLocked(err) }})
}

func (s *Stream) failLocked(err error) {
	if s.err == nil && !s.dead {
		s.err, s.in, s.waits = err, nil, nil
		s.wakeLocked()
	}
}

// Close implements [net.Conn]. Like Linux, it resets a connection with bytes that nobody has read.
func (s *Stream) Close() error {
	n := s.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed {
		return s.wrap("close", net.ErrClosed)
	}
	s.closed = true
	for _, d := range []*deadline{&s.read, &s.write} {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
	switch {
	case s.dead || s.err != nil || s.peer == nil:
	case len(s.in) > 0:
		s.waits = nil
		s.peer.resetLocked()
	default:
		s.shutLocked()
	}
	s.wakeLocked()
	return nil
}

// CloseWrite ends the direction of writes, as [net.TCPConn.CloseWrite] does.
func (s *Stream) CloseWrite() error {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	switch {
	case s.closed:
		return s.wrap("close", net.ErrClosed)
	case s.err != nil:
		return s.wrap("close", s.err)
	}
	s.shutLocked()
	s.wakeLocked()
	return nil
}

// shutLocked has the peer read to the end, once.
func (s *Stream) shutLocked() {
	if !s.shut {
		s.shut = true
		s.waits = append(s.waits, segment{})
		s.pumpLocked()
	}
}

// LocalAddr and RemoteAddr implement [net.Conn].
func (s *Stream) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(s.local) }
func (s *Stream) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.remote) }

// SetDeadline implements [net.Conn].
func (s *Stream) SetDeadline(t time.Time) error {
	s.set(&s.read, t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (s *Stream) SetReadDeadline(t time.Time) error { return s.set(&s.read, t) }

// SetWriteDeadline implements [net.Conn].
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.set(&s.write, t) }

func (s *Stream) set(d *deadline, t time.Time) error {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			s.network.mu.Lock()
			defer s.network.mu.Unlock()
			s.wakeLocked()
		})
	}
	return nil
}

// Listener is a TCP port of a Network. It implements [net.Listener].
type Listener struct {
	network *Network
	at      netip.AddrPort
	in      chan *Stream
	end     sync.Once
	closed  chan struct{}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case s := <-l.in:
		return s, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.end.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		if l.network.tcp[l.at] == l {
			delete(l.network.tcp, l.at)
		}
	})
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }
