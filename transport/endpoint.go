package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

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

// openSockets opens the sockets of a listener.
func (c *ListenConfig) openSockets(local *net.UDPAddr) ([]Socket, error) {
	if c.Sockets != nil {
		return c.Sockets(local)
	}
	udp, err := ListenUDP("udp", local)
	return []Socket{{Conn: udp}}, err
}

func (s *Socket) validate() error {
	if s.ConnectionIDs == nil || s.ConnectionIDs.ConnectionIDLen() == ConnectionIDLength {
		return nil
	}
	return fmt.Errorf("ConnectionIDs: %d bytes: must be %d", s.ConnectionIDs.ConnectionIDLen(), ConnectionIDLength)
}

// packetConn returns the socket as quic-go reads it. index is its own. If that fails, the socket is closed.
func (c *ListenConfig) packetConn(index int, s *Socket) (UDPConn, error) {
	if err := s.validate(); err != nil {
		return nil, errors.Join(err, s.Conn.Close())
	}
	system, ok := s.Conn.(*net.UDPConn)
	if c.Coalesce == nil || !ok {
		return s.Conn, nil
	}
	delay := c.Coalesce(index)
	if s.Woken == nil {
		return coalesce(system, delay)
	}
	return coalesce(system, func() time.Duration {
		s.Woken()
		return delay()
	})
}
