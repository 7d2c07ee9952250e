package media

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"
)

// ErrClosed says that the subscription, its connection or the loop has ended.
var ErrClosed = errors.New("media sender is closed")

// Sender sends all subscription data of one connection, which it shares with quic-go through the quic.Hooks that it implements.
// It needs little memory until something is sent.
type Sender struct{ quic.Hooks }

// Congestion is what a sender knows about its path.
type Congestion struct {
	Window   int           // congestion window, in bytes
	InFlight int           // bytes sent and neither acknowledged nor lost
	SRTT     time.Duration // smoothed RTT; 0 before the first sample
	MinRTT   time.Duration
	RTTVar   time.Duration
	Waiting  int64         // bytes that could be sent if the window allowed
	Blocked  time.Duration // how long data has been waiting without a pause
}

// Stats returns the state of the path and counters.
func (s *Sender) Stats() Stats { return Stats{} }

// Stats is a snapshot for metrics.
type Stats struct {
	Congestion
	Packets, Bytes, LostPackets, LostBytes uint64
}
