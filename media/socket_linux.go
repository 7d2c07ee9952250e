package media

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

// linuxSocket sends many messages per system call (sendmmsg), each of which may be a train that the kernel or the device cuts (UDP GSO).
type linuxSocket struct {
	raw   syscall.RawConn
	ipv6  bool
	gso   bool
	stats *writeStats

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

func newSocket(pc net.PacketConn, gso bool, stats *writeStats) (socket, error) {
	udp, err := newUDPSocket(pc, stats)
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
		raw: raw, stats: stats,
		headers: make([]mmsghdr, maxMessages), vectors: make([]unix.Iovec, maxMessages), control: make([][controlBytes]byte, maxMessages),
	}
	err = raw.Control(func(fd uintptr) {
		domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		s.ipv6 = err == nil && domain == unix.AF_INET6
		_, err = unix.GetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT) // since Linux 4.18
		s.gso = gso && err == nil
		stats.gso.Store(s.gso)
	})
	return s, err
}

func (s *linuxSocket) trains() bool { return s.gso }

// name returns the address as a sockaddr of the socket's family.
func (s *linuxSocket) name(r *route) []byte {
	a, port := r.remote.Addr(), r.remote.Port()
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

func (s *linuxSocket) write(messages []message) {
	for i := range messages {
		s.prepare(i, &messages[i])
	}
	for sent := 0; sent < len(messages); {
		n, err := s.sendmmsg(sent, len(messages))
		for i := range n {
			s.stats.sent(&messages[sent+i], messages[sent+i].count, nil)
		}
		sent += n
		if err != nil { // of the message after those
			s.refused(&messages[sent], sent, err)
			sent++
		}
	}
}

// prepare makes the header of a message.
func (s *linuxSocket) prepare(i int, m *message) {
	v, h := &s.vectors[i], &s.headers[i]
	v.Base = unsafe.SliceData(m.data)
	v.SetLen(len(m.data))
	*h = mmsghdr{}
	h.Name = unsafe.SliceData(m.route.name)
	h.Namelen = uint32(len(m.route.name))
	h.Iov = v
	h.SetIovlen(1)
	if c := s.controlFor(i, m); len(c) > 0 {
		h.Control = unsafe.SliceData(c)
		h.SetControllen(len(c))
	}
}

// controlFor makes the control messages of a message.
func (s *linuxSocket) controlFor(i int, m *message) []byte {
	c := append(s.control[i][:0], m.route.oob...)
	if m.count == 1 {
		return c
	}
	at := len(c)
	c = append(c, make([]byte, unix.CmsgSpace(2))...)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[at]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(c[at+unix.CmsgLen(0):], uint16(m.segment))
	return c
}

// sendmmsg sends prepared messages, waiting for the socket if it has no room. It returns how many were sent before an error.
func (s *linuxSocket) sendmmsg(from, to int) (n int, err error) {
	werr := s.raw.Write(func(fd uintptr) bool {
		for {
			s.stats.calls.Add(1)
			r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&s.headers[from])), uintptr(to-from), 0, 0, 0)
			switch errno {
			case 0:
				n, err = int(r), nil
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

// refused deals with a message that the system did not take. If it was a train, its packets go one by one; when they pass, the device
// cannot cut trains.
func (s *linuxSocket) refused(m *message, i int, err error) {
	if m.count == 1 || !errors.Is(err, unix.EIO) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EMSGSIZE) {
		s.stats.sent(m, m.count, err)
		return
	}
	passed := true
	for data := m.data; len(data) > 0; {
		n := min(m.segment, len(data))
		one := message{route: m.route, data: data[:n], segment: n, count: 1}
		s.prepare(i, &one)
		_, err := s.sendmmsg(i, i+1)
		s.stats.sent(&one, 1, err)
		passed = passed && err == nil
		data = data[n:]
	}
	if passed {
		m.route.trains = false
		s.stats.errors[WriteNoGSO].Add(1)
	}
}
