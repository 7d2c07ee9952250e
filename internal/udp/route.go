package udp

import (
	"net/netip"
	"slices"
)

// Route is where packets go. It does not change: for another destination, make another route.
type Route struct {
	remote netip.AddrPort
	oob    []byte // control messages that choose the source address
	name   []byte // remote, as Socket.Name returns it
	ecn    byte   // of packets (RFC 3168 §5)
	trains bool   // packets may be sent as trains; the socket takes that back
}

// NewRoute returns a route to an address. oob are control messages that choose the source address. They are kept.
func NewRoute(sock Socket, remote netip.AddrPort, oob []byte) *Route {
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	return &Route{remote: remote, oob: oob, name: sock.Name(remote), trains: sock.Trains()}
}

// Marked returns the same route for packets that paths may mark as congested (ECT(0), RFC 3168 §5). It returns nil if
// the system cannot send such packets.
func (r *Route) Marked() *Route {
	oob := appendECN(slices.Clip(r.oob), r.remote.Addr(), ect0)
	if oob == nil {
		return nil
	}
	m := *r
	m.oob, m.ecn = oob, ect0
	return &m
}

// ect0 are the ECN bits of ECT(0).
const ect0 = 2

// ECN returns the ECN bits of packets.
func (r *Route) ECN() byte { return r.ecn }

// Remote returns the address. It is not an IPv4-mapped IPv6 address.
func (r *Route) Remote() netip.AddrPort { return r.remote }

// OOB returns the control messages that choose the source address.
func (r *Route) OOB() []byte { return r.oob }
