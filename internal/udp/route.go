package udp

import "net/netip"

// Route is where packets go. It does not change: for another destination, make another route.
type Route struct {
	remote netip.AddrPort
	oob    []byte // control messages that choose the source address
	name   []byte // remote, as Socket.Name returns it
	trains bool   // packets may be sent as trains; the socket takes that back
}

// NewRoute returns a route to an address. oob are control messages that choose the source address. They are kept.
func NewRoute(sock Socket, remote netip.AddrPort, oob []byte) *Route {
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	return &Route{remote: remote, oob: oob, name: sock.Name(remote), trains: sock.Trains()}
}

// Remote returns the address. It is not an IPv4-mapped IPv6 address.
func (r *Route) Remote() netip.AddrPort { return r.remote }

// OOB returns the control messages that choose the source address.
func (r *Route) OOB() []byte { return r.oob }
