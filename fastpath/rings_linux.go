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

// look is called at each look of the reclaimer. It reports whether the connection has the ring, or wants one, and
// whether it has not used the ring for long.
func (r ring) look() (has, wants, unused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle++
	has = r.ring != nil
	return has, !has && r.wanted && !r.closed, has && r.idle > idleRing
}
