package replay

import (
	"math"
	"time"

	"sluice/clock"
	"sluice/congestion"
)

// Constants of draft-ietf-rmcat-gcc-02, and of its successor in WebRTC: the trend and how its threshold adapts.
const (
	gccBurst     = 5 * time.Millisecond // packets that were sent within that are one group
	gccTrend     = 20                   // groups whose trend counts
	gccSmoothing = .9
	gccGain      = 4
	gccGroups    = 60 // after so many, the gain does not grow any more

	gccThreshold = 12.5 // ms, at first
	gccLeast     = 6
	gccMost      = 600
	gccOutlier   = 15 // ms above the threshold: it does not adapt to that
	gccRaise     = .0087
	gccLower     = .039

	gccDecrease = .85
	gccIncrease = 1.08 // in a second, far from where the path was full
	gccWindow   = 500 * time.Millisecond
	gccLoss     = .1
	gccPaced    = 2.5 // times the rate, for as long as the window has room
	gccQueue    = 100 * time.Millisecond
)

// gcc is like Google Congestion Control: while groups of packets come ever later, it sends less than the path has
// carried, and else ever more. It takes RTTs for arrival times, since ACKs have none; an ACK of a single packet may be
// delayed, and does not count. Frames leave in bursts, which WebRTC's pacer allows, too, and a window bounds them.
type gcc struct {
	mtu, rate float64 // bytes a second; 0: there was no ACK yet
	least     []rttSample
	carried   []carriedBytes // of gccWindow, while data waited
	since     clock.Time     // when it began to wait; 0: it does not
	changed   clock.Time     // the rate
	starting  bool
	full      float64 // rate that the path carried when it was full, a moving average; 0: forgotten
	spread    float64 // its variance

	group, last gccGroup
	delay       float64      // of the latest group against the first one, ms
	smooth      float64      // the same, smoothed
	points      [][2]float64 // ms, and the smoothed delay then
	groups      int
	threshold   float64
	trend       float64

	lost, acked float64 // bytes, in this second
	second      clock.Time
}

type carriedBytes struct {
	at    clock.Time
	bytes float64
}

// gccGroup is when the first packet of a group was sent, and when the last one was acknowledged.
type gccGroup struct{ sent, acked clock.Time }

func newGCC(mtu int) congestion.Controller {
	c := new(gcc)
	c.Reset(mtu)
	return c
}

// Reset implements [congestion.Controller].
func (c *gcc) Reset(mtu int) { *c = gcc{mtu: float64(mtu), starting: true, threshold: gccThreshold} }

// Spurious implements [congestion.Controller].
func (*gcc) Spurious(clock.Time) {}

// Window implements [congestion.Controller].
func (c *gcc) Window() int {
	if c.rate == 0 {
		return int(10 * c.mtu)
	}
	return int(max(c.rate*(c.least[0].rtt+gccQueue).Seconds(), 4*c.mtu))
}

// Rate implements [congestion.Controller].
func (c *gcc) Rate(time.Duration) int64 { return int64(gccPaced * c.rate) }

// Acked implements [congestion.Controller].
func (c *gcc) Acked(e congestion.AckEvent) {
	c.least = noteRTT(c.least, rttSample{e.Now, e.LatestRTT}, 10*time.Second, less)
	if c.rate == 0 {
		c.rate, c.changed, c.second = 10*c.mtu/max(e.SRTT, time.Millisecond).Seconds(), e.Now, e.Now
	}
	c.note(e)
	if e.Packets > 1 {
		c.arrived(e)
	}
	c.adapt(e)
	c.adaptToLosses(e.Now)
}

// note notes what the path carries while data waits.
func (c *gcc) note(e congestion.AckEvent) {
	c.acked += float64(e.Bytes)
	if c.since = e.LimitedSince; c.since == 0 {
		c.carried = nil
		return
	}
	c.carried = append(c.carried, carriedBytes{e.Now, float64(e.Bytes)})
	c.since = max(c.since, e.Now.Add(-gccWindow))
	for c.carried[0].at < c.since {
		c.carried = c.carried[1:]
	}
}

// carriedRate returns the rate that the path carries, or 0 if that is not known.
func (c *gcc) carriedRate(now clock.Time) (rate float64) {
	took := now.Sub(c.since)
	if c.since == 0 || took < gccWindow/10 {
		return 0
	}
	for _, b := range c.carried {
		rate += b.bytes
	}
	return rate / took.Seconds()
}

// arrived puts packets into groups, and compares each group with the one before.
func (c *gcc) arrived(e congestion.AckEvent) {
	if c.group.sent != 0 && e.Sent.Sub(c.group.sent) <= gccBurst {
		c.group.acked = e.Now
		return
	}
	if c.last.sent != 0 {
		ms := float64(c.group.acked.Sub(c.last.acked)-c.group.sent.Sub(c.last.sent)) / 1e6
		c.estimate(float64(c.group.acked)/1e6, ms)
	}
	c.last, c.group = c.group, gccGroup{e.Sent, e.Now}
}

// estimate updates the trend by how much later a group came than the one before, and adapts the threshold to it.
func (c *gcc) estimate(at, later float64) {
	c.groups = min(c.groups+1, gccGroups)
	c.delay += later
	c.smooth = gccSmoothing*c.smooth + (1-gccSmoothing)*c.delay
	if c.points = append(c.points, [2]float64{at, c.smooth}); len(c.points) <= gccTrend {
		return
	}
	c.points = c.points[1:]
	c.trend = slope(c.points) * float64(c.groups) * gccGain
	if above := math.Abs(c.trend) - c.threshold; above < gccOutlier {
		k := gccRaise
		if above < 0 {
			k = gccLower
		}
		took := min(at-c.points[gccTrend-2][0], 100)
		c.threshold = min(max(c.threshold+k*above*took, gccLeast), gccMost)
	}
}

// slope returns the slope of the line through points, by least squares.
func slope(points [][2]float64) float64 {
	var x, y, up, across float64
	for _, p := range points {
		x, y = x+p[0]/float64(len(points)), y+p[1]/float64(len(points))
	}
	for _, p := range points {
		up, across = up+(p[0]-x)*(p[1]-y), across+(p[0]-x)*(p[0]-x)
	}
	if across == 0 {
		return 0
	}
	return up / across
}

// adapt changes the rate: down at once, up little by little, and not at all while a queue becomes shorter.
func (c *gcc) adapt(e congestion.AckEvent) {
	carried := c.carriedRate(e.Now)
	took := min(e.Now.Sub(c.changed), time.Second).Seconds()
	switch {
	case c.trend > c.threshold:
		if carried > 0 && e.Now.Sub(c.changed) >= e.SRTT {
			c.starting, c.changed = false, e.Now
			c.noteFull(carried)
			c.rate = min(c.rate, gccDecrease*carried)
		}
		return
	case c.trend < -c.threshold || e.LimitedSince == 0:
	case c.starting:
		c.rate += float64(e.Bytes) / max(e.SRTT, time.Millisecond).Seconds()
	case c.full > 0 && math.Abs(carried-c.full) < 3*math.Sqrt(c.spread): // half a packet in the time of a response
		c.rate += c.mtu / 2 * took / (gccQueue + e.SRTT).Seconds()
	default:
		c.full = 0
		c.rate = max(c.rate, min(c.rate*math.Pow(gccIncrease, took), 1.5*carried))
	}
	c.changed = e.Now
}

// noteFull notes the rate of the path that is full.
func (c *gcc) noteFull(rate float64) {
	if c.full == 0 {
		c.full, c.spread = rate, 0
	}
	off := rate - c.full
	c.full, c.spread = c.full+.05*off, .95*c.spread+.05*off*off
}

// adaptToLosses sends less after a second in which more than a tenth was lost.
func (c *gcc) adaptToLosses(now clock.Time) {
	if now.Sub(c.second) < time.Second {
		return
	}
	if part := c.lost / (c.lost + c.acked); part > gccLoss {
		c.rate *= 1 - part/2
	}
	c.rate = max(c.rate, c.mtu)
	c.lost, c.acked, c.second = 0, 0, now
}

// Lost implements [congestion.Controller].
func (c *gcc) Lost(e congestion.LossEvent) { c.lost += float64(e.Bytes) }
