package fastpath

import (
	"slices"
	"time"
)

const (
	// idleRing is how many times the reclaimer looks at an unused ring before it takes the ring away.
	idleRing = 100
	// ringBatch is how many rings the reclaimer makes at a time. The kernel waits some 10 ms for a batch; before Linux
	// 6.8, for each ring of it.
	ringBatch = 64
)

// tendRings gives rings to the connections that the kernel sends to, and takes away rings that have not been used for
// long.
func (r *reclaimer) tendRings() {
	var wanted []*conn
	for _, c := range r.fast.registry.all() {
		wants, idle := c.ringState()
		switch {
		case idle:
			r.takeRing(c)
		case wants:
			wanted = append(wanted, c)
		}
	}
	since := time.Now()
	for batch := range slices.Chunk(wanted, ringBatch) {
		r.fast.report("provide memory for key streams", r.giveRings(batch))
		if time.Since(since) > reclaimInterval {
			return // others wait for the reclaimer, too
		}
	}
}

func (c *conn) ringState() (wanted, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead.idle++
	return c.ahead.wanted && !c.closed, c.ahead.ring != nil && c.ahead.idle > idleRing
}

// giveRings gives connections rings. If one of them is closed meanwhile, reclaim takes its ring.
func (r *reclaimer) giveRings(conns []*conn) error {
	rings := r.fast.kernel.keyStreams
	var indices []uint32
	for _, c := range conns {
		indices = append(indices, c.index)
	}
	err := rings.lend(indices...)
	for _, c := range conns {
		c.mu.Lock()
		c.ahead.ring, c.ahead.wanted, c.ahead.refused = rings.of(c.index), false, err != nil
		c.mu.Unlock()
	}
	return err
}

// takeRing takes a connection's ring away.
func (r *reclaimer) takeRing(c *conn) {
	c.mu.Lock()
	has := c.ahead.ring != nil
	c.ahead.ring, c.ahead.made = nil, 0
	c.mu.Unlock()
	if has {
		r.fast.report("free memory of key streams", r.fast.kernel.keyStreams.takeBack(c.index))
	}
}
