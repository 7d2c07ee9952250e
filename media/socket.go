package media

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// udpSocket sends one packet per system call, on any system.
type udpSocket struct {
	conn  udpConn
	stats *writeStats
}

// udpConn is the part of *net.UDPConn that sends with a choice of the source address.
type udpConn interface {
	net.PacketConn
	WriteMsgUDPAddrPort(b, oob []byte, addr netip.AddrPort) (n, oobn int, err error)
}

func newUDPSocket(pc net.PacketConn, stats *writeStats) (*udpSocket, error) {
	c, ok := pc.(udpConn)
	if !ok {
		return nil, fmt.Errorf("%T is not a UDP socket", pc)
	}
	return &udpSocket{c, stats}, nil
}

func (s *udpSocket) trains() bool       { return false }
func (s *udpSocket) name(*route) []byte { return nil }

func (s *udpSocket) write(messages []message) {
	for i := range messages {
		m := &messages[i]
		for data := m.data; len(data) > 0; {
			n := min(m.segment, len(data))
			s.stats.calls.Add(1)
			_, _, err := s.conn.WriteMsgUDPAddrPort(data[:n], m.route.oob, m.route.remote)
			s.stats.sent(m, 1, err)
			data = data[n:]
		}
	}
}

// sent counts packets of a message that the system took, or refused with an error.
func (w *writeStats) sent(m *message, packets int, err error) {
	switch {
	case err == nil:
		w.messages.Add(1)
		w.packets.Add(uint64(packets))
	case errors.Is(err, syscall.EMSGSIZE):
		w.errors[WriteTooLarge].Add(1)
	case errors.Is(err, syscall.ENOBUFS):
		w.errors[WriteNoBuffer].Add(1)
	default:
		w.errors[WriteError].Add(1)
	}
}
