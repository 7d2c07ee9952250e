package media

import (
	"time"

	"sluice/congestion"
)

// Events is told what happens, on a goroutine of the loop and without locks held. Methods must not block for long.
// Embed [NoEvents] to implement some of them.
type Events interface {
	// TooFarBehind reports, once, a subscription that lags more than the configured limits: bytes are not sent or not
	// acknowledged, and the oldest that is not sent has the age lag. Its owner should end it with TOO_FAR_BEHIND (draft
	// §8).
	TooFarBehind(sub *Subscription, bytes int64, lag time.Duration)
	// CongestionEvent reports that packets were lost, after the controller has reacted.
	CongestionEvent(s *Sender, c congestion.State, persistent bool)
	// ThresholdChanged reports what the drop policy has decided.
	ThresholdChanged(s *Sender, threshold Level)
}

// NoEvents ignores all events.
type NoEvents struct{}

// TooFarBehind implements [Events].
func (NoEvents) TooFarBehind(*Subscription, int64, time.Duration) {}

// CongestionEvent implements [Events].
func (NoEvents) CongestionEvent(*Sender, congestion.State, bool) {}

// ThresholdChanged implements [Events].
func (NoEvents) ThresholdChanged(*Sender, Level) {}
