package transport

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"
)

// Socket is a UDP socket for a listener, which closes it.
type Socket struct {
	Conn UDPConn
	// ConnectionIDs makes the connection IDs that clients send to it, of ConnectionIDLength bytes. Default: random
	// ones.
	ConnectionIDs quic.ConnectionIDGenerator
	// Woken, if it is set, is called when the reader of the socket has woken, on its goroutine. That needs Coalesce.
	Woken func()
}

// UDPConn is a UDP socket: a [net.UDPConn], or one of a network in memory.
type UDPConn interface {
	net.PacketConn
	WriteMsgUDPAddrPort(b, oob []byte, addr netip.AddrPort) (n, oobn int, err error)
}

// ListenUDP opens a socket of the system; see [net.ListenUDP].
func ListenUDP(network string, local *net.UDPAddr) (UDPConn, error) {
	c, err := net.ListenUDP(network, local)
	if err != nil {
		return nil, err // not an interface with a nil pointer
	}
	return c, nil
}

// endpoint is a socket of a listener with the QUIC connections whose packets come to it.
type endpoint struct {
	udp  UDPConn
	tr   *quic.Transport
	quic *quic.EarlyListener
}

func (s *Socket) validate() error {
	if s.ConnectionIDs == nil || s.ConnectionIDs.ConnectionIDLen() == ConnectionIDLength {
		return nil
	}
	return fmt.Errorf("ConnectionIDs: %d bytes: must be %d", s.ConnectionIDs.ConnectionIDLen(), ConnectionIDLength)
}
