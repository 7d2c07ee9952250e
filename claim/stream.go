package claim

// StreamState is the state that both senders of one downstream stream share. It has the layout of struct stream_state
// in the kernel's programs: one cache line. It has offsets of the publisher's stream, which are log offsets while the
// log has the stream that it began with.
type StreamState struct {
	Next  Word   // the cursor: publisher's offset of the first byte that is not claimed, with ClosedBit
	Delta Word   // stream offset minus publisher's offset, two's complement
	Limit Word   // flow control limit, a stream offset (MAX_STREAM_DATA)
	ID    Word   // QUIC stream id
	Phase Word32 // StreamOpening and so on
	Level Word32 // Subscriber Priority << 8 | Publisher Priority
	Alias Word   // Track Alias in the prefix of a stream that the forwarder has opened
	_     [16]byte
}

// Claim takes the bytes from and up to these offsets, and with last the right to send FIN. It reports whether the
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
	cursor, _ = st.close()
	return cursor
}

// close ends claiming, and returns the cursor and whether claiming had ended before.
func (st *StreamState) close() (cursor int64, closed bool) {
	for {
		next := st.Next.Load()
		if closed = next&ClosedBit != 0; closed || st.Next.CompareAndSwap(next, next|ClosedBit) {
			return int64(next &^ ClosedBit), closed
		}
	}
}

// MoveTo ends claiming, and copies the state to where it goes on: out of the memory of a forwarder, which claims no
// more, or into it. The copy has smaller offsets, by a number: it may belong to another publisher's stream. MoveTo
// returns the cursor, as it was, and whether claiming had ended before, with FIN.
func (st *StreamState) MoveTo(to *StreamState, by int64) (cursor int64, closed bool) {
	cursor, closed = st.close()
	next := uint64(cursor - by)
	if closed {
		next |= ClosedBit
	}
	to.Next.Store(next)
	to.Delta.Store(st.Delta.Load() + uint64(by))
	to.Limit.Store(st.Limit.Load())
	to.ID.Store(st.ID.Load())
	to.Level.Store(st.Level.Load())
	to.Phase.Store(st.Phase.Load())
	st.Phase.Store(StreamClosed)
	return cursor, closed
}

// Cursor returns the cursor, and whether claiming has ended.
func (st *StreamState) Cursor() (offset int64, closed bool) {
	n := st.Next.Load()
	return int64(n &^ ClosedBit), n&ClosedBit != 0
}

// Shift returns the number that turns an offset of the publisher's stream into a stream offset when it is added.
func (st *StreamState) Shift() int64 { return int64(st.Delta.Load()) }
