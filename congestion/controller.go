package congestion

import (
	"time"

	"sluice/clock"
)

// Controller decides how much may be in flight, and how fast it leaves. A controller serves one connection and is
// called by one goroutine at a time, with the sender's lock held: it must neither block nor call the sender.
type Controller interface {
	// Acked reports the packets that an ACK frame newly acknowledged, without packets that were reported to Lost.
	Acked(AckEvent)
	// Lost reports packets that are considered lost (RFC 9002 §6.1).
	Lost(LossEvent)
	// Spurious reports that a packet that was sent at that time and reported to Lost has been acknowledged after all.
	Spurious(sent clock.Time)
	// Window returns the congestion window in bytes.
	Window() int
	// Rate returns the pacing rate in bytes per second on a path with that smoothed RTT. 0: no pacing.
	Rate(srtt time.Duration) int64
	// Reset forgets everything, for a new path with packets of at most mtu bytes (RFC 9000 §9.4).
	Reset(mtu int)
}

// Seeder is a controller that draws random numbers. With the same seed they are the same each time, in simulations.
type Seeder interface{ Seed(seed uint64) }

// Scalable is a controller that responds to each mark of congestion by little, so that a path may mark as soon as
// packets wait (L4S, RFC 9331). Such a path knows its packets by ECT(1). Other controllers' packets have ECT(0).
type Scalable interface {
	// Smooth reports whether packets are to leave one by one: a burst would wait at the bottleneck, and be marked.
	Smooth() bool
}

// AckEvent is the packets that one ACK frame newly acknowledged.
type AckEvent struct {
	Now        clock.Time
	Bytes      int
	First      clock.Time // when the earliest of these packets was sent
	Sent       clock.Time // when the latest of these packets was sent
	InFlight   int        // bytes in flight before the ACK
	LatestRTT  time.Duration
	SRTT       time.Duration // smoothed
	MinRTT     time.Duration
	Packets    int
	CE         int  // packets that the path has marked as congested, which are not lost (RFC 9000 §13.4)
	AppLimited bool // when the latest packet was sent, neither window nor pacing held data back
	// LimitedSince is when they began to hold data back without a pause; 0: they do not.
	LimitedSince clock.Time
}

// LossEvent is all packets found lost at one time.
type LossEvent struct {
	Now        clock.Time
	Packets    int
	Bytes      int
	Sent       clock.Time // when the latest of these packets was sent
	InFlight   int        // bytes in flight before the loss was found
	Persistent bool       // persistent congestion (RFC 9002 §7.6)
}

// State is a sender's knowledge of its path.
type State struct {
	Window   int           // congestion window in bytes
	InFlight int           // bytes that were sent and are neither acknowledged nor lost
	SRTT     time.Duration // smoothed RTT; 0 before the first sample
	MinRTT   time.Duration
	RTTVar   time.Duration // mean deviation of the RTT
	Longest  time.Duration // RTT of the last two to four seconds, without ACK delay
	Arrived  uint64        // bytes that were acknowledged, about
}

// Controllers are the controllers of this package, by name.
var Controllers = map[string]func(mtu int) Controller{"cubic": NewCubic, "bbr": NewBBR, "prague": NewPrague}

// Limits of the window, which a sender applies to a controller's result.
const (
	MinWindow = 2 * 1200 // two packets of the size that every path carries (RFC 9002 §7.2)
	MaxWindow = 16 << 20 // a sender could not record more packets
)

// initialWindow returns the window of a new path (RFC 9002 §7.2).
func initialWindow(mtu int) int { return min(10*mtu, max(2*mtu, 14720)) }
