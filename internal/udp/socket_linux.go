package udp

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// linuxSocket sends many messages per system call (sendmmsg). Each may be a train, which the kernel or the device
// cuts (UDP GSO).
type linuxSocket struct {
	raw      syscall.RawConn
	ipv6     bool
	gso      bool
	counters *Counters

	headers []mmsghdr
	vectors []unix.Iovec
	control [][controlBytes]byte
}

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	len uint32
}

// controlBytes has room for the choice of a source address (IPV6_PKTINFO) and UDP_SEGMENT.
const controlBytes = 96

// NewSocket returns a socket that sends on pc, in trains if gso is set and the kernel can cut them. It does not close
// pc.
func NewSocket(pc net.PacketConn, gso bool, counters *Counters) (Socket, error) {
	udp, err := newPortable(pc, counters)
	if err != nil {
		return nil, err
	}
	c, ok := pc.(syscall.Conn)
	if !ok {
		return udp, nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &linuxSocket{
		raw: raw, counters: counters, headers: make([]mmsghdr, maxMessages), vectors: make([]unix.Iovec, maxMessages),
		control: make([][controlBytes]byte, maxMessages),
	}
	err = raw.Control(func(fd uintptr) {
		domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		s.ipv6 = err == nil && domain == unix.AF_INET6
		_, err = unix.GetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT) // since Linux 4.18
		s.gso = gso && err == nil
		counters.gso.Store(s.gso)
	})
	return s, err
}

func (s *linuxSocket) Trains() bool { return s.gso }

// Name returns the address as a sockaddr of the socket's family.
func (s *linuxSocket) Name(remote netip.AddrPort) []byte {
	a, port := remote.Addr(), remote.Port()
	if !s.ipv6 {
		b := make([]byte, unix.SizeofSockaddrInet4)
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], port)
		a4 := a.As4()
		copy(b[4:], a4[:])
		return b
	}
	b := make([]byte, unix.SizeofSockaddrInet6)
	binary.NativeEndian.PutUint16(b, unix.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], port)
	a16 := a.As16()
	copy(b[8:], a16[:])
	binary.NativeEndian.PutUint32(b[24:], zoneIndex(a))
	return b
}

func zoneIndex(a netip.Addr) uint32 {
	if a.Zone() == "" {
		return 0
	}
	i, err := net.InterfaceByName(a.Zone())
	if err != nil {
		return 0
	}
	return uint32(i.Index)
}

func (s *linuxSocket) Write(messages []Message) {
	for i := range messages {
		s.prepare(i, &messages[i])
	}
	for sent := 0; sent < len(messages); {
		n, err := s.sendmmsg(sent, len(messages))
		for i := range n {
			s.counters.wrote(messages[sent+i].Count, nil)
		}
		sent += n
		if err != nil { // of the next message
			s.refused(&messages[sent], sent, err)
			sent++
		}
	}
}

// prepare makes the header of a message.
func (s *linuxSocket) prepare(i int, m *Message) {
	v, h := &s.vectors[i], &s.headers[i]
	v.Base = unsafe.SliceData(m.Data)
	v.SetLen(len(m.Data))
	*h = mmsghdr{}
	h.Name = unsafe.SliceData(m.Route.name)
	h.Namelen = uint32(len(m.Route.name))
	h.Iov = v
	h.SetIovlen(1)
	if c := s.controlFor(i, m); len(c) > 0 {
		h.Control = unsafe.SliceData(c)
		h.SetControllen(len(c))
	}
}

// controlFor makes the control messages of a message.
func (s *linuxSocket) controlFor(i int, m *Message) []byte {
	c := append(s.control[i][:0], m.Route.oob...)
	if m.Count == 1 {
		return c
	}
	at := len(c)
	c = append(c, make([]byte, unix.CmsgSpace(2))...)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[at]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(c[at+unix.CmsgLen(0):], uint16(m.Segment))
	return c
}

// sendmmsg sends the first of the prepared messages from and up to these indices. It waits if the socket has no room.
// It returns how many were sent before an error.
func (s *linuxSocket) sendmmsg(from, to int) (n int, err error) {
	werr := s.raw.Write(func(fd uintptr) bool {
		for {
			r, errno := s.call(fd, from, to)
			switch errno {
			case 0:
				n, err = r, nil
				return true
			case unix.EINTR:
			case unix.EAGAIN:
				return false
			default:
				n, err = 0, os.NewSyscallError("sendmmsg", errno)
				return true
			}
		}
	})
	if werr != nil { // the socket was closed
		return 0, werr
	}
	return n, err
}

// fewMessages is how many messages are sent in so short a time that nobody else needs the processor meanwhile.
const fewMessages = 8

// call makes the system call, for few messages. Go's scheduler is not told of it: its monitor thread wakes up for a
// call that it is told of, and then looks every 20 µs until the process sleeps.
func (s *linuxSocket) call(fd uintptr, from, to int) (int, unix.Errno) {
	s.counters.calls.Add(1)
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&s.headers[from])),
		uintptr(min(to-from, fewMessages)), unix.MSG_DONTWAIT, 0, 0)
	return int(r), errno
}

// refused counts a message that the system did not take. The packets of a train are sent again one by one. If the
// system takes each of them, the device cannot cut trains.
func (s *linuxSocket) refused(m *Message, i int, err error) {
	if m.Count == 1 || !errors.Is(err, unix.EIO) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EMSGSIZE) {
		s.counters.wrote(m.Count, err)
		return
	}
	passed := true
	for data := m.Data; len(data) > 0; {
		n := min(m.Segment, len(data))
		one := Message{Route: m.Route, Data: data[:n], Segment: n, Count: 1}
		s.prepare(i, &one)
		_, err := s.sendmmsg(i, i+1)
		s.counters.wrote(1, err)
		passed = passed && err == nil
		data = data[n:]
	}
	if passed {
		m.Route.trains = false
		s.counters.failures[noGSO].Add(1)
	}
}
