package media

import (
	"time"

	"sluice/congestion"
)

// SubscriptionState is how fast the data of a subscription gets to the subscriber.
type SubscriptionState struct {
	congestion.State
	// Lag is the age of the oldest byte of the subscription that could be sent if the path allowed it.
	Lag time.Duration
	// Sent counts the bytes of all packets of the connection.
	Sent uint64
	// Dropping is whether something of the connection is held back: by the threshold of the drop policy, by its bucket,
	// or by an operator's rule, which has declined something a moment ago.
	Dropping bool
}

// State returns how fast the data of the subscription gets to the subscriber now.
func (sub *Subscription) State() SubscriptionState {
	s := sub.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	state := SubscriptionState{
		State: s.control.path(), Sent: s.state.Bytes.Load(), Dropping: s.dropping(),
	}
	now := s.loop.clock.Now()
	for _, st := range s.streams.all {
		if st.sub == sub && st.reader != nil {
			state.Lag = max(state.Lag, st.waited(now))
		}
	}
	return state
}
