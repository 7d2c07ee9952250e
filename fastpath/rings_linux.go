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

// ring is a ring that a connection has, or may get.
type ring struct {
	*conn
	*lookahead
}

func (c *conn) rings() [2]ring { return [...]ring{{c, &c.sealing}, {c, &c.opening}} }

// tendRings gives rings to the connections that the kernel sends to, or whose packets it opens, and takes away rings
// that have not been used for long. It reports whether any are in use.
func (r *reclaimer) tendRings() (used bool) {
	var wanted []ring
	for _, c := range r.fast.registry.all() {
		for _, ring := range c.rings() {
			switch ring.state() {
			case ringIdle:
				r.takeRing(ring)
			case ringWanted:
				wanted = append(wanted, ring)
				used = true
			case ringUsed:
				used = true
			}
		}
	}
	since := time.Now()
	for batch := range slices.Chunk(wanted, ringBatch) {
		r.fast.report("provide memory for key streams", r.giveRings(batch))
		if time.Since(since) > reclaimInterval {
			break // others wait for the reclaimer, too
		}
	}
	return used
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

// giveRings gives connections rings. If one of them is closed meanwhile, reclaim takes its rings.
func (r *reclaimer) giveRings(rings []ring) error {
	memory := r.fast.kernel.keyStreams
	var indices []uint32
	for _, ring := range rings {
		indices = append(indices, ring.lookahead.index)
	}
	err := memory.lend(indices...)
	for _, ring := range rings {
		ring.mu.Lock()
		ring.ring, ring.wanted, ring.refused = memory.of(ring.lookahead.index), false, err != nil
		ring.mu.Unlock()
	}
	return err
}

// takeRing takes a ring away.
func (r *reclaimer) takeRing(ring ring) {
	ring.mu.Lock()
	has := ring.ring != nil
	ring.ring, ring.made = nil, 0
	ring.mu.Unlock()
	if has {
		r.fast.report("free memory of key streams", r.fast.kernel.keyStreams.takeBack(ring.lookahead.index))
	}
}
