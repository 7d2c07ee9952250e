package congestion

import "time"

const (
	// shallowQueue is more than the queue of a path that marks for L4S: these mark from 1 ms on (RFC 9332). An older
	// path lets 5 ms (CoDel) and more wait.
	shallowQueue = 5 * time.Millisecond
	// shallowPackets may wait as well: a slow path needs longer than that for a few packets.
	shallowPackets = 3
	// classicRounds is after how many round trips a path is taken for an older one.
	classicRounds = 4
)

// classic finds out whether a path marks as RFC 3168 says: late, when a queue has stood, and without regard for ECT(1).
// There marks have to be answered like losses, or other flows get too little (RFC 9331 §4.3). It looks at round trips
// with marks: if the queue was deep in all of one, that speaks for such a path, and if not, against it. A queue that
// has stood since the connection began cannot be told from the path's length. And a path that gets longer by more than
// the bounds looks like a path with a queue for as long as it marks: the RTT is compared with the least RTT of the
// connection. Then Prague is CUBIC, which takes less than it could, but nothing from others. A recent least RTT would
// err the other way: a queue that others keep standing would count as the path's length. With the least RTT of the last
// 10 s, Prague has half of an older path (10 Mbit/s and 10 ms, marks at 20 ms) beside six flows of CUBIC; with the
// connection's, a quarter.
type classic struct {
	least  time.Duration // RTT of the round
	rounds int           // that speak for it, less those against it, up to classicRounds
	found  bool          // until none is left
}

// acked takes the RTT of a packet.
func (c *classic) acked(e AckEvent) {
	if c.least == 0 || e.LatestRTT < c.least {
		c.least = e.LatestRTT
	}
}

// endRound ends a round trip: whether it had marks, and the window and packet size in bytes.
func (c *classic) endRound(e AckEvent, marks bool, window, mtu float64) {
	queue := c.least - e.MinRTT
	c.least = 0
	if !marks {
		return
	}
	packets := time.Duration(shallowPackets * mtu / window * float64(e.SRTT))
	if queue > shallowQueue+packets {
		c.rounds = min(c.rounds+1, classicRounds)
	} else {
		c.rounds = max(c.rounds-1, 0)
	}
	c.found = c.rounds == classicRounds || c.found && c.rounds > 0
}
