package media

import (
	"sluice/clock"
	"time"
)

// CongestionController decides how much may be in flight, and how fast it leaves. A controller serves one connection and is called by
// one goroutine at a time, with the sender's lock held: it must neither block nor call the sender.
type CongestionController interface {
	// Sent reports a packet. inFlight includes it.
	Sent(now clock.Time, bytes, inFlight int)
	// Acked reports what an ACK frame newly acknowledged. Packets that Lost had reported are not part of it.
	Acked(AckEvent)
	// Lost reports packets that are considered lost (RFC 9002 §6.1).
	Lost(LossEvent)
	// Spurious reports that a packet, which Lost had reported, was acknowledged after all.
	Spurious(sent clock.Time)
	// Window is the congestion window in bytes.
	Window() int
	// Rate is the pacing rate in bytes per second on a path with that smoothed RTT. 0: no pacing.
	Rate(srtt time.Duration) int64
	// Reset forgets everything, for a new path with packets of at most mtu bytes (RFC 9000 §9.4).
	Reset(mtu int)
}

// AckEvent is what one ACK frame newly acknowledged.
type AckEvent struct {
	Now        clock.Time
	Bytes      int
	Sent       clock.Time // when the latest of it was sent
	InFlight   int        // before
	LatestRTT  time.Duration
	SRTT       time.Duration
	MinRTT     time.Duration
	AppLimited bool // when the latest of it was sent, neither window nor pacing held anything back
}

// LossEvent is what was found lost at one time.
type LossEvent struct {
	Now        clock.Time
	Packets    int
	Bytes      int
	Sent       clock.Time // when the latest of it was sent
	InFlight   int        // before
	Persistent bool       // persistent congestion (RFC 9002 §7.6)
}

// Congestion is what a sender knows about its path.
type Congestion struct {
	Window   int           // congestion window in bytes
	InFlight int           // bytes sent and neither acknowledged nor lost
	SRTT     time.Duration // smoothed RTT; 0 before the first sample
	MinRTT   time.Duration
	RTTVar   time.Duration
}

// initialWindow is the window of a new path (RFC 9002 §7.2).
func initialWindow(mtu int) int { return min(10*mtu, max(2*mtu, 14720)) }

func minimumWindow(mtu int) int { return 2 * mtu }

// maxWindow bounds what a controller may ask for: more could not be recorded (see maxLedger).
const maxWindow = 16 << 20
