package claim

// StreamState is what all senders of one downstream stream share.
type StreamState struct {
	Next  Word   // claim cursor: upstream offset of the first byte that nobody has sent; with closedBit none may be claimed any more
	Delta Word   // stream offset minus upstream offset, two's complement
	Limit Word   // flow control limit, a stream offset (MAX_STREAM_DATA)
	ID    Word   // QUIC stream id
	Phase Word32 // streamOpening, streamOpen, streamClosed
	Level Word32 // priority, see Level
	_     [24]byte
}

// closedBit in StreamState.Next ends claiming: FIN was sent, or the stream was reset.
const closedBit = 1 << 63

// States of a stream. Whoever opens a stream has it alone until the prefix is sent.
const (
	StreamOpening = iota
	StreamOpen
	StreamClosed
	StreamAbandoned // opened by a second sender that could not send the prefix
)

// claim takes the bytes [from, to), and with last the right to send FIN.
func (st *StreamState) Claim(from, to int64, last bool) bool {
	next := uint64(to)
	if last {
		next |= closedBit
	}
	return st.Next.CompareAndSwap(uint64(from), next)
}

// close ends claiming and returns the upstream offset up to which bytes were claimed.
func (st *StreamState) Close() (next int64) {
	for {
		next := st.Next.Load()
		if next&closedBit != 0 || st.Next.CompareAndSwap(next, next|closedBit) {
			return int64(next &^ closedBit)
		}
	}
}

// next returns the claim cursor, and whether claiming has ended.
func (st *StreamState) Cursor() (offset int64, closed bool) {
	n := st.Next.Load()
	return int64(n &^ closedBit), n&closedBit != 0
}

func (st *StreamState) Shift() int64 { return int64(st.Delta.Load()) }
