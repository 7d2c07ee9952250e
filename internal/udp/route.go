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

// Marked returns the same route for packets with ECN bits, which paths may mark as congested (RFC 3168 §5). It returns
// nil if the system cannot send such packets.
func (r *Route) Marked(bits byte) *Route {
	oob := appendECN(slices.Clip(r.oob), r.remote.Addr(), bits)
	if oob == nil {
		return nil
	}
	m := *r
	m.oob, m.ecn = oob, bits
	return &m
}

// ECN returns the ECN bits of packets.
func (r *Route) ECN() byte { return r.ecn }

// Remote returns the address. It is not an IPv4-mapped IPv6 address.
func (r *Route) Remote() netip.AddrPort { return r.remote }

// OOB returns the control messages that choose the source address.
func (r *Route) OOB() []byte { return r.oob }
