package transport

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// The system calls in this file do not wait, and are made without telling Go's scheduler. If a system call is announced
// to it, its monitor thread wakes up, to give the processor to other goroutines if the call takes long, and then looks
// every 20 µs until the process sleeps. In a relay that wakes up for a few packets, that is most of its wake-ups.

// direct makes a system call that does not wait, again if a signal has interrupted it.
func direct(trap, fd uintptr, p unsafe.Pointer, a3, a4 uintptr) (int, unix.Errno) {
	for {
		r, _, errno := unix.RawSyscall6(trap, fd, uintptr(p), a3, a4, 0, 0)
		if errno != unix.EINTR {
			return int(r), errno
		}
	}
}

// epollWait returns the number of files of an epoll instance about which it has something to report.
func epollWait(fd uintptr, events []unix.EpollEvent) (int, error) {
	n, errno := direct(unix.SYS_EPOLL_PWAIT, fd, unsafe.Pointer(&events[0]), uintptr(len(events)), 0)
	if errno != 0 {
		return 0, os.NewSyscallError("epoll_wait", errno)
	}
	return n, nil
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	len uint32
}

// inbox is the memory for reading packets.
type inbox struct {
	headers []mmsghdr
	vectors []unix.Iovec
	names   []unix.RawSockaddrInet6 // it has room for an IPv4 address, too
	zones   map[uint32]string       // names of devices by index, for link-local addresses
}

// receive reads packets that have arrived, and fails with EAGAIN if there are none. Each message has one buffer.
func (b *inbox) receive(fd uintptr, ms []ipv4.Message, flags int) (int, error) {
	for len(b.headers) < len(ms) {
		b.headers, b.vectors = append(b.headers, mmsghdr{}), append(b.vectors, unix.Iovec{})
		b.names = append(b.names, unix.RawSockaddrInet6{})
	}
	for i := range ms {
		b.prepare(i, &ms[i])
	}
	n, errno := direct(unix.SYS_RECVMMSG, fd, unsafe.Pointer(unsafe.SliceData(b.headers)), uintptr(len(ms)),
		uintptr(flags|unix.MSG_DONTWAIT))
	if errno != 0 {
		return 0, os.NewSyscallError("recvmmsg", errno)
	}
	for i := range n {
		m, h := &ms[i], &b.headers[i]
		m.N, m.NN, m.Flags, m.Addr = int(h.len), int(h.Controllen), int(h.Flags), b.sender(i)
	}
	return n, nil
}

// prepare makes the header of a message.
func (b *inbox) prepare(i int, m *ipv4.Message) {
	v, h := &b.vectors[i], &b.headers[i]
	v.Base = unsafe.SliceData(m.Buffers[0])
	v.SetLen(len(m.Buffers[0]))
	*h = mmsghdr{}
	h.Name, h.Namelen = (*byte)(unsafe.Pointer(&b.names[i])), unix.SizeofSockaddrInet6
	h.Iov = v
	h.SetIovlen(1)
	h.Control = unsafe.SliceData(m.OOB)
	h.SetControllen(len(m.OOB))
}

// sender returns where a message came from.
func (b *inbox) sender(i int) net.Addr {
	sa := &b.names[i]
	port := int(binary.BigEndian.Uint16(unsafe.Slice((*byte)(unsafe.Pointer(&sa.Port)), 2)))
	switch sa.Family {
	case unix.AF_INET:
		ip := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa)).Addr
		return &net.UDPAddr{IP: ip[:], Port: port}
	case unix.AF_INET6:
		ip := sa.Addr
		return &net.UDPAddr{IP: ip[:], Port: port, Zone: b.zone(sa.Scope_id)}
	}
	return nil
}

func (b *inbox) zone(index uint32) string {
	if index == 0 {
		return ""
	}
	if name, known := b.zones[index]; known {
		return name
	}
	device, err := net.InterfaceByIndex(int(index))
	if err != nil {
		return ""
	}
	if b.zones == nil {
		b.zones = make(map[uint32]string)
	}
	b.zones[index] = device.Name
	return device.Name
}

// send sends a packet. It waits if the socket has no room.
func send(fd uintptr, b, oob, name []byte) error {
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	h := &unix.Msghdr{
		Name: unsafe.SliceData(name), Namelen: uint32(len(name)), Iov: &v, Control: unsafe.SliceData(oob),
	}
	h.SetIovlen(1)
	h.SetControllen(len(oob))
	_, errno := direct(unix.SYS_SENDMSG, fd, unsafe.Pointer(h), unix.MSG_DONTWAIT, 0)
	for errno == unix.EAGAIN || errno == unix.EINTR {
		_, _, errno = unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(h)), 0)
	}
	if errno != 0 {
		return os.NewSyscallError("sendmsg", errno)
	}
	return nil
}

// sockaddr returns an address as a sockaddr of a family.
func sockaddr(addr netip.AddrPort, ipv6 bool) []byte {
	if !ipv6 {
		b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
		b = binary.BigEndian.AppendUint16(b, addr.Port())
		a4 := addr.Addr().Unmap().As4()
		return append(append(b, a4[:]...), make([]byte, 8)...)
	}
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	b = binary.BigEndian.AppendUint16(b, addr.Port())
	a16 := addr.Addr().As16()
	b = append(append(b, make([]byte, 4)...), a16[:]...)
	return binary.NativeEndian.AppendUint32(b, zoneIndex(addr.Addr().Zone()))
}

func zoneIndex(zone string) uint32 {
	if zone == "" {
		return 0
	}
	device, err := net.InterfaceByName(zone)
	if err != nil {
		return 0
	}
	return uint32(device.Index)
}
