package media

// Stream is one downstream subgroup stream.
type Stream struct{}

// Reset ends the stream with an application's code, unless all of it was acknowledged. A stream that is not open on the
// wire yet will not be opened.
func (st *Stream) Reset(code uint64) {}

// Outcome is how a stream ended.
type Outcome uint8

// Outcomes.
const (
	Delivered        Outcome = iota // every byte and FIN was acknowledged
	Canceled                        // reset by the owner
	UpstreamReset                   // the log was reset
	Stopped                         // the peer sent STOP_SENDING
	ObjectTimedOut                  // OBJECT_DELIVERY_TIMEOUT
	SubgroupTimedOut                // SUBGROUP_DELIVERY_TIMEOUT
	Dropped                         // by the drop policy
	LogDiscarded                    // the log no longer holds the bytes
	ConnectionClosed                // with the connection
)

// Result says how a stream ended.
type Result struct {
	Outcome Outcome
	Code    uint64 // of RESET_STREAM, STOP_SENDING or the log's reset, as the application's; on the wire for Stopped
	ID      int64  // QUIC stream id; -1 if the stream was never opened
	Size    int64  // bytes sent, prefix included: the final size
}
