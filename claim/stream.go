package claim

// StreamState is what both senders of one downstream stream share. Its layout is that of struct stream_state in the
// kernel's programs: one cache line.
type StreamState struct {
	Next  Word   // the cursor: log offset of the first byte that is not claimed, with ClosedBit
	Delta Word   // stream offset minus log offset, two's complement
	Limit Word   // flow control limit, a stream offset (MAX_STREAM_DATA)
	ID    Word   // QUIC stream id
	Phase Word32 // StreamOpening and so on
	Level Word32 // Subscriber Priority << 8 | Publisher Priority
	_     [24]byte
}

// Claim takes the bytes from and up to these log offsets, and with last the right to send FIN. It reports whether the
// cursor was at from, so that they are the caller's.
func (st *StreamState) Claim(from, to int64, last bool) bool {
	next := uint64(to)
	if last {
		next |= ClosedBit
	}
	return st.Next.CompareAndSwap(uint64(from), next)
}

// Close ends claiming and returns the cursor.
func (st *StreamState) Close() (cursor int64) {
	for {
		next := st.Next.Load()
		if next&ClosedBit != 0 || st.Next.CompareAndSwap(next, next|ClosedBit) {
			return int64(next &^ ClosedBit)
		}
	}
}

// Cursor returns the cursor, a log offset, and whether claiming has ended.
func (st *StreamState) Cursor() (offset int64, closed bool) {
	n := st.Next.Load()
	return int64(n &^ ClosedBit), n&ClosedBit != 0
}

// Shift returns what turns a log offset into a stream offset when it is added.
func (st *StreamState) Shift() int64 { return int64(st.Delta.Load()) }
