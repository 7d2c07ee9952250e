package replay

import (
	"math"
	"slices"
	"time"

	"sluice/clock"
	"sluice/congestion"
)

// Constants of Copa (Arun and Balakrishnan, NSDI 2018).
const (
	copaTarget = 2  // 1/δ: packets that a flow wants in the queue, while others keep it short
	copaEmpty  = .1 // part of the largest queueing delay, below which the queue is nearly empty
	copaMemory = 10 * time.Second

	// Round trips.
	copaRecent  = 4 // the largest queueing delay within them counts
	copaBusy    = 5 // if the queue was never nearly empty within them, others fill it
	copaHurries = 3 // after so many in one direction, the velocity doubles

	copaPaced = 2 // windows that leave in a round trip
)

// copa aims at a rate of 1/(δ·d), where d is the queueing delay: the more packets wait, the less it sends. It changes
// its window by velocity/δ packets in a round trip. Where others fill the queue, 1/δ grows by 1 in each round
// trip, and a loss halves it.
type copa struct {
	mtu, window float64
	started     bool        // slow start is over
	least       []rttSample // of copaMemory, ascending
	standing    []rttSample // of half a round trip: without the delay of ACKs
	most        []rttSample // of copaRecent, descending
	wanted      float64     // 1/δ
	emptied     clock.Time  // when the queue was nearly empty last; 0: never
	lost        bool        // packets, in this round trip
	recovery    clock.Time  // packets that were sent until then and are lost belong to the same event
	round       clock.Time  // when this round trip began
	before      float64     // window then
	up          bool        // it grew in the last one
	turns       int         // round trips since that changed
	velocity    float64
}

type rttSample struct {
	at  clock.Time
	rtt time.Duration
}

// noteRTT adds a sample to a list. It removes the samples that are older than a time, and each sample that is no better
// than the new one. So the best sample is first.
func noteRTT(all []rttSample, s rttSample, within time.Duration, better func(a, b time.Duration) bool) []rttSample {
	i := slices.IndexFunc(all, func(o rttSample) bool { return !better(o.rtt, s.rtt) })
	if i >= 0 {
		all = all[:i]
	}
	all = append(all, s)
	for s.at.Sub(all[0].at) > within {
		all = all[1:]
	}
	return all
}

func less(a, b time.Duration) bool { return a < b }
func more(a, b time.Duration) bool { return a > b }

func newCopa(mtu int) congestion.Controller {
	c := new(copa)
	c.Reset(mtu)
	return c
}

// Reset implements [congestion.Controller].
func (c *copa) Reset(mtu int) {
	*c = copa{mtu: float64(mtu), window: float64(10 * mtu), wanted: copaTarget, velocity: 1, recovery: -1}
}

// Spurious implements [congestion.Controller].
func (*copa) Spurious(clock.Time) {}

// Window implements [congestion.Controller].
func (c *copa) Window() int { return int(c.window) }

// Rate implements [congestion.Controller].
func (c *copa) Rate(srtt time.Duration) int64 {
	if len(c.standing) > 0 {
		srtt = c.standing[0].rtt
	}
	return int64(copaPaced * c.window / max(srtt, time.Millisecond).Seconds())
}

// Acked implements [congestion.Controller].
func (c *copa) Acked(e congestion.AckEvent) {
	s := rttSample{e.Now, e.LatestRTT}
	c.least = noteRTT(c.least, s, copaMemory, less)
	c.standing = noteRTT(c.standing, s, e.SRTT/2, less)
	c.most = noteRTT(c.most, s, copaRecent*e.SRTT, more)
	delay := c.standing[0].rtt - c.least[0].rtt
	c.compete(e, delay)
	if e.Sent >= c.round {
		c.endRound(e.Now)
	}
	target := math.Inf(1)
	if delay > 0 {
		target = c.wanted * c.mtu / delay.Seconds()
	}
	step := c.velocity * c.wanted * c.mtu * float64(e.Bytes) / c.window
	switch {
	case c.window/c.standing[0].rtt.Seconds() > target:
		c.started = true
		c.window -= step
	case e.AppLimited && 2*e.InFlight < int(c.window): // a window that was not used may be large enough
	case !c.started:
		c.window += float64(e.Bytes)
	default:
		c.window += step
	}
	c.window = min(max(c.window, 2*c.mtu), congestion.MaxWindow)
}

// compete finds out whether others fill the queue.
func (c *copa) compete(e congestion.AckEvent, delay time.Duration) {
	if c.emptied == 0 || float64(delay) <= copaEmpty*float64(c.most[0].rtt-c.least[0].rtt) {
		c.emptied, c.wanted = e.Now, copaTarget
	}
}

// endRound doubles the velocity if the window goes on in one direction.
func (c *copa) endRound(now clock.Time) {
	if up := c.window > c.before; up != c.up {
		c.up, c.turns, c.velocity = up, 0, 1
	} else if c.turns++; c.turns >= copaHurries {
		c.velocity = min(2*c.velocity, c.window/c.mtu/c.wanted)
	}
	if now.Sub(c.emptied) > copaBusy*c.most[0].rtt && !c.lost {
		c.wanted++
	}
	c.round, c.before, c.lost = now, c.window, false
}

// Lost implements [congestion.Controller].
func (c *copa) Lost(e congestion.LossEvent) {
	if e.Persistent {
		c.window, c.velocity, c.turns = 2*c.mtu, 1, 0
	}
	if e.Sent > c.recovery {
		c.recovery, c.lost = e.Now, true
		c.wanted = max(c.wanted/2, copaTarget)
	}
}
