package media

import (
	"net"
	"net/netip"

	"sluice/internal/udp"
)

// baseMTU is what every QUIC path carries (RFC 9000 §14).
const baseMTU = 1200

// blackHole is how many packets larger than baseMTU are lost in a row, with none of that size acknowledged and no
// smaller one lost, before the sender concludes that the path does not carry them any more (RFC 8899 §4.3).
const blackHole = 12

// path is where packets go, and how large they may be. It is guarded by the sender's lock.
type path struct {
	ledger  *ledger
	route   *route // plain or marked; nil: packets may not be sent yet
	plain   *route
	marked  *route // with mark; nil: the system cannot mark packets
	mark    byte   // ECT(0) or ECT(1)
	bigLost int    // packets larger than baseMTU that were lost since one was acknowledged
}

// route does not change, because batches refer to it: another path gets another route.
type route struct {
	*udp.Route
	destConnID []byte
	local      netip.AddrPort // unspecified if the control messages of Route choose it
}

// set sets where packets go, with marks if they have had them.
func (p *path) set(r route) {
	marks := p.route != nil && p.route == p.marked
	p.plain, p.marked = &r, nil
	if m := r.Route.Marked(p.mark); m != nil {
		p.marked = &route{m, r.destConnID, r.local}
	}
	p.choose(marks)
}

// choose chooses between marked and plain packets.
func (p *path) choose(marked bool) {
	p.route = p.plain
	if marked && p.marked != nil {
		p.route = p.marked
	}
}

// addrPort returns a UDP address, or the zero one.
func addrPort(a net.Addr) netip.AddrPort {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := u.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// differs reports whether packets take another path than on an older route. A change of the port alone is no other
// path: it is most often another binding of the same NAT. A client may get another address itself, when the stack
// chooses another route for its packets.
func (r *route) differs(old *route) bool {
	return r.Remote().Addr() != old.Remote().Addr() || r.local.Addr() != old.local.Addr()
}

// lost notes the loss of a packet of that size.
func (p *path) lost(size int) {
	if p.bigLost++; size <= baseMTU {
		p.bigLost = 0
	}
}

// acked notes that a packet of that size has arrived. It reports whether larger ones no longer do: then packets have
// baseMTU until quic-go reports a path.
func (p *path) acked(size int) (shrunk bool) {
	if p.bigLost >= blackHole && size <= baseMTU && p.ledger.mtu > baseMTU {
		p.ledger.setMTU(baseMTU)
		shrunk = true
	}
	p.bigLost = 0
	return shrunk
}
