package media

import (
	"cmp"
	"fmt"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
)

// congestionControl asks a congestion controller. It keeps the window in the shared state, which both senders obey,
// and paces the packets of the media sender. It is guarded by the sender's lock.
type congestionControl struct {
	state      *claim.ConnState
	controller congestion.Controller // nil until there is a path
	rtt        congestion.RTT
	pacer      congestion.Pacer
	since      clock.Time // when window or pacing began to hold data back; 0: the last turn has sent all that there was
}

// start begins with a controller.
func (c *congestionControl) start(controller congestion.Controller) {
	c.controller = controller
	c.publish()
}

// reset forgets what was measured on another path.
func (c *congestionControl) reset(mtu int) {
	c.rtt, c.pacer = congestion.RTT{}, congestion.Pacer{}
	c.controller.Reset(mtu)
	c.publish()
}

// publish stores the controller's window in the shared state.
func (c *congestionControl) publish() {
	c.state.Window.Store(uint64(min(max(c.controller.Window(), congestion.MinWindow), congestion.MaxWindow)))
}

// name returns the name of the controller: of its type, if it has no method String.
func (c *congestionControl) name() string {
	switch c := c.controller.(type) {
	case nil:
		return ""
	case fmt.Stringer:
		return c.String()
	default:
		return fmt.Sprintf("%T", c)
	}
}

// path returns what is known about the path.
func (c *congestionControl) path() congestion.State {
	return congestion.State{
		Window: int(c.state.Window.Load()), InFlight: int(c.state.InFlight.Load()),
		SRTT: c.rtt.Smoothed, MinRTT: c.rtt.Min, RTTVar: c.rtt.Variance,
		Left: c.state.Bytes.Load() - c.state.InFlight.Load(),
	}
}

// refill brings the pacer up to date, and reports whether packets are paced.
func (c *congestionControl) refill(now clock.Time, mtu int) (paced bool) {
	rate := c.controller.Rate(c.rtt.Smoothed)
	if rate > 0 {
		c.pacer.Refill(now, rate, c.controller.Window(), mtu)
	}
	return rate > 0
}

// blocked returns what forbids the next packet: the window, pacing or nothing.
func (c *congestionControl) blocked(now clock.Time, mtu int, paced bool) Reason {
	r := none
	switch {
	case !c.state.Fits(mtu):
		r = BlockedWindow
	case paced && !c.pacer.Ready():
		r = BlockedPacing
	}
	if r != none {
		c.state.LimitedTo.Store(c.state.NextPN.Load() & claim.NumberMask)
		c.since = cmp.Or(c.since, now)
	}
	return r
}

// idle notes that there is nothing to send.
func (c *congestionControl) idle() { c.since = 0 }

// nextPacket returns when pacing lets the next packet leave.
func (c *congestionControl) nextPacket(mtu int) clock.Time {
	return c.pacer.Next(c.controller.Rate(c.rtt.Smoothed), mtu)
}

// sent counts a packet of the media sender.
func (c *congestionControl) sent(now clock.Time, n int) {
	c.pacer.Spend(n)
	c.state.Charge(n, now)
	c.state.Packets.Add(1)
	c.state.Bytes.Add(uint64(n))
	c.controller.Sent(now, n, int(c.state.InFlight.Load()))
}

// limited reports whether window or pacing held data back when the packet with that number was sent. LimitedTo is
// shared because the forwarder finds the window full, too: when user space gets to the data, there may be room again.
func (c *congestionControl) limited(number uint64) bool { return number < c.state.LimitedTo.Load() }

// acked reports an ACK to the controller, unless it acknowledges nothing that counts. newest is the highest of its
// packets.
func (c *congestionControl) acked(e congestion.AckEvent, newest uint64) {
	if e.Bytes == 0 {
		return
	}
	e.AppLimited, e.LimitedSince = !c.limited(newest), c.since
	e.LatestRTT, e.SRTT, e.MinRTT = c.rtt.Latest, c.rtt.Smoothed, c.rtt.Min
	c.controller.Acked(e)
}
