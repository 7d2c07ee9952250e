package media

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// memoryConn is one end of a path in memory, for tests in virtual time. Packets arrive after a delay, in order.
type memoryConn struct {
	addr      atomic.Pointer[net.UDPAddr]
	other     *memoryConn
	delay     time.Duration
	duplicate atomic.Bool // each packet arrives twice
	mute      atomic.Bool // no packet arrives
	sent      atomic.Int64

	out, in chan memoryPacket
	kick    chan struct{} // ends one read
	closed  chan struct{}
	close   sync.Once
	done    sync.WaitGroup
}

type memoryPacket struct {
	data []byte
	from net.Addr
	at   time.Time // when it arrives
}

// newMemoryPath returns both ends of a path.
func newMemoryPath(delay time.Duration) (a, b *memoryConn) {
	a, b = newMemoryConn("192.0.2.1:1", delay), newMemoryConn("192.0.2.2:2", delay)
	a.other, b.other = b, a
	a.done.Go(a.forward)
	b.done.Go(b.forward)
	return a, b
}

func newMemoryConn(addr string, delay time.Duration) *memoryConn {
	c := &memoryConn{
		delay: delay, out: make(chan memoryPacket, 1<<12), in: make(chan memoryPacket, 1<<12),
		kick: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	c.move(addr)
	return c
}

// move gives the end another address.
func (c *memoryConn) move(addr string) {
	c.addr.Store(net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
}

// forward brings packets to the other end.
func (c *memoryConn) forward() {
	for {
		select {
		case p := <-c.out:
			time.Sleep(time.Until(p.at))
			for n := 0; n < 2 && !c.mute.Load() && (n == 0 || c.duplicate.Load()); n++ {
				c.other.in <- p
			}
		case <-c.closed:
			return
		}
	}
}

func (c *memoryConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-c.in:
		return copy(b, p.data), p.from, nil
	case <-c.kick:
		return 0, nil, os.ErrDeadlineExceeded
	case <-c.closed:
		return 0, nil, net.ErrClosed
	}
}

func (c *memoryConn) WriteTo(b []byte, _ net.Addr) (int, error) {
	c.sent.Add(1)
	c.out <- memoryPacket{bytes.Clone(b), c.addr.Load(), time.Now().Add(c.delay)}
	return len(b), nil
}

func (c *memoryConn) WriteMsgUDPAddrPort(b, _ []byte, _ netip.AddrPort) (int, int, error) {
	n, err := c.WriteTo(b, nil)
	return n, 0, err
}

// SetReadDeadline ends a read. quic-go uses no other deadlines.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		select {
		case c.kick <- struct{}{}:
		default:
		}
	}
	return nil
}

func (c *memoryConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	c.done.Wait()
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr              { return c.addr.Load() }
func (c *memoryConn) SetDeadline(time.Time) error      { return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }
func (c *memoryConn) SetReadBuffer(int) error          { return nil }
func (c *memoryConn) SetWriteBuffer(int) error         { return nil }
