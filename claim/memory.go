package claim

// Arena allocates shared state. One that is a [SecondSender] shares it with another sender. Its methods may be called on any goroutine. What it cannot provide comes from the heap: then that
// subscriber has no second sender.
type Memory interface {
	// Subscriber and Stream return zeroed state, or nil if there is no more.
	NewConn() *ConnState
	NewStream() *StreamState
	// Ledger returns a ring for s of at least n records (a power of two), or nil if it has none so large. It may return the same
	// ring again; contents are undefined.
	Ledger(s *ConnState, n int) []Record
	// FreeSubscriber and FreeStream return state that nothing uses any more; the former with its ledger.
	FreeConn(*ConnState)
	FreeStream(*StreamState)
}

// memory is the default Arena.
type Heap struct{}

func (Heap) NewConn() *ConnState                 { return new(ConnState) }
func (Heap) NewStream() *StreamState             { return new(StreamState) }
func (Heap) Ledger(_ *ConnState, n int) []Record { return make([]Record, n) }
func (Heap) FreeConn(*ConnState)                 {}
func (Heap) FreeStream(*StreamState)             {}
