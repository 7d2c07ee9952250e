package udp

import (
	"fmt"
	"net"
	"net/netip"
)

// Socket is where batches go. NewSocket returns the system's.
type Socket interface {
	// Trains reports whether messages may have several packets.
	Trains() bool
	// Write sends messages. Messages that the system refuses are lost and counted.
	Write([]Message)
	// Name returns an address in the form that Write uses, or nil if it uses the address itself.
	Name(netip.AddrPort) []byte
}

// portable sends one packet per system call, on any system.
type portable struct {
	conn     conn
	counters *Counters
}

// conn is the part of *net.UDPConn that sends from a chosen source address.
type conn interface {
	net.PacketConn
	WriteMsgUDPAddrPort(b, oob []byte, addr netip.AddrPort) (n, oobn int, err error)
}

func newPortable(pc net.PacketConn, counters *Counters) (*portable, error) {
	c, ok := pc.(conn)
	if !ok {
		return nil, fmt.Errorf("%T is not a UDP socket", pc)
	}
	return &portable{c, counters}, nil
}

func (s *portable) Trains() bool               { return false }
func (s *portable) Name(netip.AddrPort) []byte { return nil }

func (s *portable) Write(messages []Message) {
	for i := range messages {
		m := &messages[i]
		for data := m.Data; len(data) > 0; {
			n := min(m.Segment, len(data))
			s.counters.calls.Add(1)
			_, _, err := s.conn.WriteMsgUDPAddrPort(data[:n], m.Route.oob, m.Route.remote)
			s.counters.wrote(1, err)
			data = data[n:]
		}
	}
}
