package claim

// Memory provides shared state. Its methods may be called on any goroutine. If it has no room for a connection or
// stream, the state comes from the [Heap], and only the media sender sends on it.
type Memory interface {
	// NewConn returns the zeroed state of a connection, or nil if there is no room.
	NewConn() *ConnState
	// NewStream returns the zeroed state of a stream that no publisher's stream belongs to, or nil if there is no room.
	NewStream() *StreamState
	// Ledger returns a ring of at least n records for a connection, where n is a power of two; nil if it has none so
	// large. It may return the same ring again. The contents are undefined.
	Ledger(s *ConnState, n int) []Record
	// FreeConn takes back the state of a connection with its ledger. Nothing may use them any more.
	FreeConn(*ConnState)
	// FreeStream takes back a state that NewStream returned. Nothing may use it any more.
	FreeStream(*StreamState)
}

// Heap is the memory of a media sender without a forwarder.
type Heap struct{}

// NewConn implements [Memory].
func (Heap) NewConn() *ConnState { return new(ConnState) }

// NewStream implements [Memory].
func (Heap) NewStream() *StreamState { return new(StreamState) }

// Ledger implements [Memory].
func (Heap) Ledger(_ *ConnState, n int) []Record { return make([]Record, n) }

// FreeConn implements [Memory].
func (Heap) FreeConn(*ConnState) {}

// FreeStream implements [Memory].
func (Heap) FreeStream(*StreamState) {}
