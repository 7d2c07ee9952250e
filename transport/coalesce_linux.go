package transport

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// coalescingSocket is a UDP socket whose reader lets packets gather. Go's poller wakes a thread for each packet that
// arrives, whether or not a goroutine waits for it. Therefore the poller does not watch the socket but an epoll
// instance, which watches the socket: with EPOLLONESHOT it reports one packet, and then nothing until it is armed
// again. A timerfd ends the time to gather, because the poller rounds times to milliseconds and wakes up twice for
// most. Only one goroutine may read.
type coalescingSocket struct {
	file  *os.File // in blocking mode: writers wait in the system call, reads have MSG_DONTWAIT
	raw   syscall.RawConn
	inbox inbox
	ipv6  bool
	local net.Addr
	delay func() time.Duration

	epoll    *os.File
	ready    syscall.RawConn
	timer    *os.File
	alarm    syscall.RawConn
	empty    bool                      // there were no more packets when it was read last
	deadline atomic.Pointer[time.Time] // for reads
	closed   atomic.Bool
}

// coalesce returns a socket that replaces c, which it closes. delay returns how long packets may wait for others.
func coalesce(c *net.UDPConn, delay func() time.Duration) (UDPConn, error) {
	defer c.Close()
	s := &coalescingSocket{local: c.LocalAddr(), delay: delay}
	if err := s.take(c); err != nil {
		return nil, err
	}
	if err := s.watch(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// take duplicates the file descriptor of c.
func (s *coalescingSocket) take(c *net.UDPConn) error {
	of, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	cerr := of.Control(func(old uintptr) {
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		domain, derr := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		s.ipv6 = domain == unix.AF_INET6
		err = errors.Join(derr, unix.SetNonblock(fd, false))
	})
	if err = errors.Join(cerr, err); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	s.file = os.NewFile(uintptr(fd), "udp")
	s.raw, err = s.file.SyscallConn()
	return err
}

// watch makes the epoll instance.
func (s *coalescingSocket) watch() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that the poller takes it
		return os.NewSyscallError("fcntl", err)
	}
	s.epoll = os.NewFile(uintptr(fd), "epoll")
	if s.ready, err = s.epoll.SyscallConn(); err != nil {
		return err
	}
	if fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	s.timer = os.NewFile(uintptr(fd), "timer")
	if s.alarm, err = s.timer.SyscallConn(); err != nil {
		return err
	}
	return errors.Join(
		s.control(unix.EPOLL_CTL_ADD, s.raw, unix.EPOLLIN|unix.EPOLLONESHOT),
		s.control(unix.EPOLL_CTL_ADD, s.alarm, unix.EPOLLIN|unix.EPOLLET),
	)
}

// control tells the epoll instance what to report about a file.
func (s *coalescingSocket) control(op int, file syscall.RawConn, events uint32) error {
	var err error
	cerr := file.Control(func(fd uintptr) {
		rerr := s.ready.Control(func(epoll uintptr) {
			err = unix.EpollCtl(int(epoll), op, int(fd), &unix.EpollEvent{Events: events})
		})
		err = errors.Join(err, rerr)
	})
	return errors.Join(cerr, os.NewSyscallError("epoll_ctl", err))
}

// await returns when there is something to read, and other packets have had time to gather.
func (s *coalescingSocket) await() error {
	if err := s.control(unix.EPOLL_CTL_MOD, s.raw, unix.EPOLLIN|unix.EPOLLONESHOT); err != nil {
		return err
	}
	err := s.wait()
	if d := s.delay(); err == nil && d > 0 {
		err = s.gather(d)
	}
	return err
}

// gather returns when d is over.
func (s *coalescingSocket) gather(d time.Duration) error {
	var err error
	cerr := s.alarm.Control(func(fd uintptr) {
		err = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	})
	if err = errors.Join(cerr, os.NewSyscallError("timerfd_settime", err)); err != nil {
		return err
	}
	return s.wait()
}

// wait waits for the epoll instance.
func (s *coalescingSocket) wait() (err error) {
	var events [2]unix.EpollEvent
	rerr := s.ready.Read(func(epoll uintptr) bool {
		var n int
		n, err = epollWait(epoll, events[:])
		return n > 0 || err != nil
	})
	if rerr != nil { // unwrapped: quic-go checks for a timeout
		return rerr
	}
	return err
}

// ReadBatch reads packets. quic-go calls no other read method.
func (s *coalescingSocket) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	n, err := s.readBatch(ms, flags)
	if err != nil && s.closed.Load() {
		err = net.ErrClosed
	}
	return n, err
}

func (s *coalescingSocket) readBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		if d := s.deadline.Load(); d != nil && !d.IsZero() && !time.Now().Before(*d) {
			return 0, os.ErrDeadlineExceeded
		}
		if s.empty {
			if err := s.await(); err != nil {
				return 0, err
			}
		}
		var n int
		var err error
		rerr := s.raw.Read(func(fd uintptr) bool {
			n, err = s.inbox.receive(fd, ms, flags)
			return true
		})
		err = errors.Join(rerr, err)
		s.empty = n < len(ms)
		if n > 0 || !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
}

func (s *coalescingSocket) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	m := []ipv4.Message{{Buffers: [][]byte{b}, OOB: oob}}
	if _, err = s.ReadBatch(m, 0); err != nil {
		return 0, 0, 0, nil, err
	}
	addr, _ = m[0].Addr.(*net.UDPAddr)
	return m[0].N, m[0].NN, m[0].Flags, addr, nil
}

func (s *coalescingSocket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, _, _, addr, err := s.ReadMsgUDP(b, nil)
	return n, addr, err
}

func (s *coalescingSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	return s.WriteMsgUDPAddrPort(b, oob, addr.AddrPort())
}

func (s *coalescingSocket) WriteMsgUDPAddrPort(b, oob []byte, addr netip.AddrPort) (n, oobn int, err error) {
	name := sockaddr(addr, s.ipv6)
	werr := s.raw.Write(func(fd uintptr) bool {
		err = send(fd, b, oob, name)
		return true
	})
	if err != nil {
		err = &net.OpError{Op: "write", Net: "udp", Source: s.local, Addr: net.UDPAddrFromAddrPort(addr), Err: err}
	}
	if err = errors.Join(werr, err); err != nil {
		return 0, 0, err
	}
	return len(b), len(oob), nil
}

func (s *coalescingSocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	to, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, &net.AddrError{Err: "no UDP address", Addr: addr.String()}
	}
	n, _, err := s.WriteMsgUDP(b, nil, to)
	return n, err
}

// SetReadDeadline ends reads, waiting ones too.
func (s *coalescingSocket) SetReadDeadline(t time.Time) error {
	s.deadline.Store(&t)
	return s.epoll.SetReadDeadline(t)
}

func (s *coalescingSocket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// SetWriteDeadline does nothing: a write waits until the device has room.
func (s *coalescingSocket) SetWriteDeadline(time.Time) error { return nil }

func (s *coalescingSocket) SetReadBuffer(bytes int) error { return s.setBuffer(unix.SO_RCVBUF, bytes) }

func (s *coalescingSocket) SetWriteBuffer(bytes int) error {
	return s.setBuffer(unix.SO_SNDBUF, bytes)
}

func (s *coalescingSocket) setBuffer(option, bytes int) error {
	var err error
	cerr := s.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, bytes) })
	return errors.Join(cerr, os.NewSyscallError("setsockopt", err))
}

func (s *coalescingSocket) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }
func (s *coalescingSocket) LocalAddr() net.Addr                   { return s.local }

// Close ends reads that wait.
func (s *coalescingSocket) Close() error {
	s.closed.Store(true)
	var errs []error
	for _, f := range []*os.File{s.epoll, s.timer, s.file} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
