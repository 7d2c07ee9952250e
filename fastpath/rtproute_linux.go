package fastpath

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Route returns from which address the stack sends datagrams to a peer, if the socket is bound to an address (which may
// be unspecified), and how large an IP packet may be on the path, as far as the stack knows.
func Route(bound netip.Addr, to netip.AddrPort) (from netip.Addr, mtu int, err error) {
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(bound, 0))
	if bound.IsUnspecified() {
		local = nil
	}
	c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to)) // sends nothing
	if err != nil {
		return from, 0, err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return from, 0, err
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if to.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { mtu, failed = unix.GetsockoptInt(int(fd), level, option) }); err != nil {
		return from, 0, err
	}
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), mtu, failed
}
