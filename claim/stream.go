package claim

// StreamState is what both senders of one downstream stream share. Its layout is that of struct stream_state in the kernel's
// programs: one cache line.
type StreamState struct {
	Next  Word   // the cursor: log offset of the first byte that is not claimed, with closedBit
	Delta Word   // stream offset minus log offset, two's complement
	Limit Word   // flow control limit, a stream offset (MAX_STREAM_DATA)
	ID    Word   // QUIC stream id
	Phase Word32 // StreamOpening and so on
	Level Word32 // Subscriber Priority << 8 | Publisher Priority
	_     [24]byte
}

// closedBit in StreamState.Next ends claiming: FIN was sent, or the stream was reset.
const closedBit = 1 << 63

// Phases of a stream.
const (
	StreamOpening   = iota // the sender that opens it has it for itself
	StreamOpen             // the prefix was sent: both may claim
	StreamClosed           // nothing more is claimed
	StreamAbandoned        // the forwarder has opened it and could not send the prefix: the media sender goes on
)

// Claim takes the bytes from and up to these log offsets, and with last the right to send FIN. It reports whether the cursor
// was at from, so that they are the caller's.
func (st *StreamState) Claim(from, to int64, last bool) bool {
	next := uint64(to)
	if last {
		next |= closedBit
	}
	return st.Next.CompareAndSwap(uint64(from), next)
}

// Close ends claiming and returns the cursor.
func (st *StreamState) Close() (cursor int64) {
	for {
		next := st.Next.Load()
		if next&closedBit != 0 || st.Next.CompareAndSwap(next, next|closedBit) {
			return int64(next &^ closedBit)
		}
	}
}

// Cursor returns the cursor, a log offset, and whether claiming has ended.
func (st *StreamState) Cursor() (offset int64, closed bool) {
	n := st.Next.Load()
	return int64(n &^ closedBit), n&closedBit != 0
}

// Shift returns what turns a log offset into a stream offset when it is added.
func (st *StreamState) Shift() int64 { return int64(st.Delta.Load()) }
