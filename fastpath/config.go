package fastpath

import (
	"errors"
	"fmt"

	"sluice/claim"
	"sluice/moqt"
)

// Settings are fixed when the programs are loaded. The zero value of a field is its default, except for Port.
type Settings struct {
	// Port is the UDP port of the relay.
	Port uint16
	// ConnectionIDLen is the length of the relay's connection IDs in bytes, 0 to 20: all of them have it.
	ConnectionIDLen int
	// MaxCopies bounds the copies that one packet causes, and so the time it keeps its CPU: 2.5 to 5 µs each.
	// Default: DefaultMaxCopies, at most MaxSubscriptions.
	MaxCopies int
	// MaxConnections is how many connections take part; others are served by this process alone. While one takes part
	// it has 64 KiB of memory, and each that is possible has 6 KiB always. Default: 512.
	MaxConnections int
}

// DefaultMaxCopies keeps 99 % of the programs' runs below 100 µs on the project's machine, interruptions included, when
// packets are as large as publishers send them and key streams have been made ahead of time. Without those it is 180
// µs.
const DefaultMaxCopies = 20

const (
	defaultMaxConnections = 512
	maxConnections        = 1 << 16
)

func (s *Settings) validate() error {
	switch {
	case s.Port == 0:
		return errors.New("fast path: no port")
	case s.ConnectionIDLen < 0 || s.ConnectionIDLen > 20:
		return fmt.Errorf("fast path: connection IDs of %d bytes, 0 to 20 are possible", s.ConnectionIDLen)
	case s.MaxCopies < 0 || s.MaxCopies > MaxSubscriptions:
		return fmt.Errorf("fast path: %d copies, 1 to %d are possible", s.MaxCopies, MaxSubscriptions)
	case s.MaxConnections < 0 || s.MaxConnections > maxConnections:
		return fmt.Errorf("fast path: %d connections, 1 to %d are possible", s.MaxConnections, maxConnections)
	}
	return nil
}

// Subscriber is a subscription to a track.
type Subscriber struct {
	Conn     claim.ForwarderConn // of the subscriber; nil and those of other second senders are passed over
	Alias    uint64              // of the track, for the subscriber
	Range    moqt.Range          // of objects that are wanted
	Forward  bool
	Priority uint8 // Subscriber Priority
}

// MaxUDPPayloadSize is the max_udp_payload_size to advertise to publishers, in bytes. A copy has longer headers than
// the packet it is made from: up to 12 bytes more for the connection ID, 3 for the packet number, 14 for stream id and
// offset, and 23 for the headers of WebTransport and the subgroup. With them it fits into the 1,452 bytes that a path
// over Ethernet and IPv6 carries.
const MaxUDPPayloadSize = 1400
