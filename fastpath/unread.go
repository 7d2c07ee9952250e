package fastpath

import "net/netip"

// Unread is a stream that the kernel has opened for a subscriber, and that user space has not read: its publisher was
// lost before it sent again what the socket had no room for. Nobody can complete it, so the subscriber may get the
// objects again on another stream. Each is logged, with the level debug, as the attribute "objects".
type Unread struct {
	Peer            netip.AddrPort // the subscriber's address
	Group, Subgroup uint64
	Sent            int64 // bytes from the first object on
}
