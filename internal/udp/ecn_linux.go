package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// appendECN appends the control message that gives a packet to an address its ECN bits (ip(7), ipv6(7)). The family of
// the socket does not matter.
func appendECN(oob []byte, remote netip.Addr, bits byte) []byte {
	at := len(oob)
	oob = append(oob, make([]byte, unix.CmsgSpace(4))...)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[at]))
	h.Level, h.Type = unix.IPPROTO_IP, unix.IP_TOS
	if remote.Is6() {
		h.Level, h.Type = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(oob[at+unix.CmsgLen(0):], uint32(bits))
	return oob
}
