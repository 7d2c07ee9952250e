package media

import "fmt"

// Outcome is how a stream ended.
type Outcome uint8

// Outcomes.
const (
	Delivered        Outcome = iota // every byte and FIN was acknowledged
	Canceled                        // reset by the owner
	UpstreamReset                   // the log was reset, and all whole objects that it had were acknowledged
	Severed                         // the same, but the log goes on as this stream cannot: see content.until
	Stopped                         // the peer sent STOP_SENDING
	ObjectTimedOut                  // OBJECT_DELIVERY_TIMEOUT
	SubgroupTimedOut                // SUBGROUP_DELIVERY_TIMEOUT
	Unacknowledged                  // for longer than the AckTimeout
	Dropped                         // by the drop policy
	Late                            // its group was late, by the drop policy, and a newer one waited
	ConnectionClosed                // with the connection
	numOutcomes
)

var outcomeNames = [numOutcomes]string{
	"delivered", "canceled", "upstream_reset", "severed", "stopped", "object_timeout", "subgroup_timeout",
	"unacknowledged", "dropped", "late", "connection_closed",
}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Result is how a stream ended, and how much of it was sent.
type Result struct {
	Outcome Outcome
	Code    uint64 // of the reset: the application's, but on the wire for Stopped
	ID      int64  // QUIC stream id; -1: the stream was never opened
	Sent    int64  // log offset: the bytes before it were sent, from the stream's first one on
	Arrived int64  // log offset: the bytes before it were acknowledged
	Severed int64  // log offset from which another stream has to bring the rest, if Outcome is Severed
}
