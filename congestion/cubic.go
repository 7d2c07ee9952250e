package congestion

import (
	"math"
	"time"

	"sluice/clock"
)

// Constants of RFC 9438 §4.1, §4.3 and §4.6.
const (
	cubicC     = 0.4
	cubicBeta  = 0.7
	cubicAlpha = 3 * (1 - cubicBeta) / (1 + cubicBeta)
)

// cubic is the CUBIC congestion controller (RFC 9438), with HyStart++ (RFC 9406). Windows are in bytes.
type cubic struct {
	mtu      float64
	window   float64
	ssthresh float64
	start    hystart
	wMax     float64    // window before the last reduction, less with fast convergence
	prior    float64    // window before the last reduction
	estimate float64    // window that Reno would have (§4.3)
	reno     float64    // how many times as fast as Reno that grows: 1, but for prague
	epoch    clock.Time // when the current stage of congestion avoidance began; 0: not begun
	k        float64    // seconds from epoch until wMax is reached again
	lastAck  clock.Time
	recovery clock.Time // packets sent until then that are lost belong to the same congestion event

	undo     cubicState // before the last congestion event
	from     clock.Time // packets sent until then belong to an earlier one
	marked   bool       // that event has packets with CE: it is never spurious
	lost     int        // packets lost in it
	spurious int        // packets of these that arrived after all
}

// cubicState is the state that a congestion event changes.
type cubicState struct {
	window, ssthresh, wMax, prior, estimate, k float64
	epoch                                      clock.Time
}

// NewCubic returns a CUBIC congestion controller (RFC 9438) with HyStart++ (RFC 9406), for packets of at most mtu
// bytes.
func NewCubic(mtu int) Controller {
	c := new(cubic)
	c.Reset(mtu)
	return c
}

func (c *cubic) Reset(mtu int) {
	*c = cubic{mtu: float64(mtu), window: float64(initialWindow(mtu)), ssthresh: math.Inf(1), reno: 1, recovery: -1}
}

func (*cubic) String() string { return "cubic" }

func (c *cubic) Window() int { return int(c.window) }

// Rate is 1.25 windows a round trip, so that pacing does not keep the window from being used (RFC 9002 §7.7), and 2
// windows in slow start, where the window doubles each round trip.
func (c *cubic) Rate(srtt time.Duration) int64 {
	if srtt <= 0 {
		srtt = initialRTT
	}
	gain := 1.25
	if c.window < c.ssthresh {
		gain = 2
	}
	return int64(gain * c.window / srtt.Seconds())
}

func (c *cubic) Acked(e AckEvent) {
	last := c.lastAck
	c.lastAck = e.Now
	if e.CE > 0 { // like a loss (RFC 9002 §7.1)
		if e.Sent > c.recovery {
			c.reduce(LossEvent{Now: e.Now})
		}
		c.marked = true
	}
	switch {
	case e.AppLimited && !c.halfUsed(e):
		// Time in which the window was not used is not time to grow in (RFC 9438 §5.8).
		if c.epoch != 0 {
			c.epoch = c.epoch.Add(e.Now.Sub(last))
		}
	case e.Sent <= c.recovery:
	case c.window < c.ssthresh:
		c.grow(e)
	default:
		c.avoid(e)
	}
}

// halfUsed reports whether slow start goes on although the window was not full. A burst that fills more than half of
// the window shows what the next one needs: without growth, each larger video frame would find the window too small.
// RFC 9002 §7.8 asks not to grow an underutilized window. In slow start, where the window doubles each round trip, TCP
// in Linux and the QUIC of Chromium take half as utilized.
func (c *cubic) halfUsed(e AckEvent) bool {
	return c.window < c.ssthresh && 2*float64(e.InFlight) > c.window
}

// grow grows the window in slow start.
func (c *cubic) grow(e AckEvent) {
	bytes, over := c.start.growth(e)
	c.window = min(c.window+float64(bytes), MaxWindow)
	if over {
		c.ssthresh = c.window
	}
}

// avoid grows the window in congestion avoidance (RFC 9438 §4.2 to §4.5).
func (c *cubic) avoid(e AckEvent) {
	if c.epoch == 0 {
		c.begin(e.Now)
	}
	acked := float64(e.Bytes)
	alpha := cubicAlpha
	if c.estimate >= c.prior {
		alpha = 1
	}
	c.estimate += c.reno * alpha * c.mtu * acked / c.window
	t := e.Now.Sub(c.epoch)
	if c.at(t) < c.estimate {
		c.window = max(c.window, c.estimate)
	} else if target := min(c.at(t+e.SRTT), 1.5*c.window); target > c.window {
		c.window += (target - c.window) * acked / c.window
	}
	c.window = min(c.window, MaxWindow)
}

// begin begins a stage of congestion avoidance.
func (c *cubic) begin(now clock.Time) {
	c.epoch = now
	c.estimate = c.window
	if c.wMax <= c.window { // slow start ended without a loss, or the last loss was long ago
		c.wMax, c.k = c.window, 0
		return
	}
	c.k = math.Cbrt((c.wMax - c.window) / c.mtu / cubicC)
}

// at returns W_cubic (RFC 9438 §4.2).
func (c *cubic) at(t time.Duration) float64 {
	d := t.Seconds() - c.k
	return cubicC*d*d*d*c.mtu + c.wMax
}

func (c *cubic) Lost(e LossEvent) {
	if e.Sent <= c.recovery {
		c.lost += e.Packets
	} else {
		c.reduce(e)
	}
	if e.Persistent {
		c.window = 2 * c.mtu
		c.epoch, c.start = 0, hystart{}
		c.recovery = -1 // RFC 9002 §7.6.2: a new recovery period may start at once
		c.lost = 0      // and this one is not undone
	}
}

// reduce starts a congestion event (RFC 9438 §4.6, §4.7).
func (c *cubic) reduce(e LossEvent) {
	c.undo = cubicState{c.window, c.ssthresh, c.wMax, c.prior, c.estimate, c.k, c.epoch}
	c.lost, c.spurious, c.marked = e.Packets, 0, false
	c.from, c.recovery = c.recovery, e.Now
	c.prior = c.window
	if c.window < c.wMax {
		c.wMax = c.window * (1 + cubicBeta) / 2
	} else {
		c.wMax = c.window
	}
	c.window = max(c.window*cubicBeta, 2*c.mtu)
	c.ssthresh = c.window
	c.epoch, c.reno = 0, 1
}

// Spurious undoes the reduction when every packet that was lost in the congestion event has arrived (RFC 9438 §4.9.2).
func (c *cubic) Spurious(sent clock.Time) {
	if sent > c.recovery || sent <= c.from || c.lost == 0 || c.marked {
		return
	}
	if c.spurious++; c.spurious < c.lost {
		return
	}
	u := c.undo
	if u.window > c.window {
		c.window, c.ssthresh, c.wMax, c.prior = u.window, u.ssthresh, u.wMax, u.prior
		c.estimate, c.k, c.epoch = u.estimate, u.k, u.epoch
	}
	c.lost = 0
}
