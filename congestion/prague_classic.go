package congestion

import "time"

const (
	// shallowQueue is more than what waits on a path that marks for L4S: these mark from 1 ms on (RFC 9332). An older
	// one lets 5 ms (CoDel) and more wait.
	shallowQueue = 5 * time.Millisecond
	// shallowPackets may wait as well: a slow path needs longer than that for a few packets.
	shallowPackets = 3
	// classicRounds is after how many round trips a path is taken for an older one.
	classicRounds = 4
)

// classic finds out whether a path marks as RFC 3168 says: late, when a queue has stood, and without regard for ECT(1).
// There marks have to be answered like losses, or other flows get too little (RFC 9331 §4.3). It looks at round trips
// with marks: if the queue was deep in all of one, that speaks for such a path, and if not, against it. Where a queue
// has stood ever since the connection began, it cannot be told from the path's length. And a path that gets longer by
// more than the bounds looks like one with a queue for as long as it marks: the RTT is compared with the least one of
// the connection. Then Prague is CUBIC, which takes less than it could, but nothing from others. A least RTT of late
// would err the other way: a queue that others keep standing would count as the path's length. With that of the last
// 10 s, Prague has half of an older path (10 Mbit/s and 10 ms, marks at 20 ms) beside six flows of CUBIC, and a quarter
// with this one.
type classic struct {
	least  time.Duration // RTT of the round
	rounds int           // that speak for it, less those against it, up to classicRounds
	found  bool          // until none is left
}

// acked takes the RTT of a packet.
func (c *classic) acked(e AckEvent) {
	if e.LatestRTT > 0 && (c.least == 0 || e.LatestRTT < c.least) {
		c.least = e.LatestRTT
	}
}

// endRound takes what a round trip was like, in which the path sent window bytes.
func (c *classic) endRound(e AckEvent, marks bool, window, mtu float64) {
	least := c.least
	c.least = 0
	if !marks || least == 0 {
		return
	}
	packets := time.Duration(shallowPackets * mtu / window * float64(e.SRTT))
	if least-e.MinRTT > shallowQueue+packets {
		c.rounds = min(c.rounds+1, classicRounds)
	} else {
		c.rounds = max(c.rounds-1, 0)
	}
	c.found = c.rounds == classicRounds || c.found && c.rounds > 0
}
