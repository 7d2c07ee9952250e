package fastpath

const (
	// idleRing is how many times the reclaimer looks at an unused ring before it takes the ring away.
	idleRing = 100
	// ringBatch is how many rings the reclaimer makes at a time. The kernel waits some 10 ms for a batch; before Linux
	// 6.8, for each ring of it.
	ringBatch = 64
)

// ring is a ring that a connection has, or may get.
type ring struct {
	*conn
	*lookahead
}

// ringState says whether a connection has a ring, or wants one.
type ringState int

const (
	noRing ringState = iota
	ringWanted
	ringUsed
	ringIdle
)

// state is called at each look.
func (r ring) state() ringState {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle++
	switch {
	case r.ring != nil && r.idle > idleRing:
		return ringIdle
	case r.ring != nil:
		return ringUsed
	case r.wanted && !r.closed:
		return ringWanted
	}
	return noRing
}
