package media

import (
	"cmp"
	"fmt"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
)

// congestionControl asks a congestion controller. It keeps the window and the pace in the shared state, which both
// senders obey. It is guarded by the sender's lock.
type congestionControl struct {
	state      *claim.ConnState
	counters   *Counters
	controller congestion.Controller // nil until there is a path
	rtt        congestion.RTT
	since      clock.Time // when window or pacing began to hold data back; 0: the last turn has sent all that there was
}

// start begins with a controller.
func (c *congestionControl) start(controller congestion.Controller) {
	c.controller = controller
	c.publish()
}

// reset forgets the measurements of another path.
func (c *congestionControl) reset(mtu int) {
	c.rtt = congestion.RTT{}
	c.state.SetPacer(congestion.Pacer{}, 0)
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

// mark returns the ECN mark that packets have by the controller's response to congestion (RFC 9331 §4.1).
func (c *congestionControl) mark() byte {
	if _, ok := c.controller.(congestion.Scalable); ok {
		return ect1
	}
	return ect0
}

// path returns the facts about the path.
func (c *congestionControl) path() congestion.State {
	return congestion.State{
		Window: int(c.state.Window.Load()), InFlight: int(c.state.InFlight.Load()),
		SRTT: c.rtt.Smoothed, MinRTT: c.rtt.Min, RTTVar: c.rtt.Variance, Longest: c.rtt.Longest(),
		Arrived: uint64(max(int64(c.state.Bytes.Load()-c.state.InFlight.Load()-c.counters.LostBytes), 0)),
	}
}

// pace stores the controller's pace in the shared state.
func (c *congestionControl) pace(now clock.Time, mtu int) {
	c.state.SetPacer(congestion.PacerOf(c.controller, c.rtt.Smoothed, mtu), now)
}

// blocked returns what forbids the next packet: the window, pacing or nothing.
func (c *congestionControl) blocked(now clock.Time, mtu int) Reason {
	r := none
	switch {
	case !c.state.Fits(mtu):
		r = BlockedWindow
	case c.state.Paced(now):
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

// goFirst says whether the forwarder must leave the pacer's tokens to the media sender.
func (c *congestionControl) goFirst(waits bool) {
	var word uint32
	if waits {
		word = 1
	}
	if c.state.PaceWaits.Load() != word {
		c.state.PaceWaits.Store(word)
	}
}

// nextPacket returns when pacing lets the next packet leave.
func (c *congestionControl) nextPacket(mtu int) clock.Time {
	return c.state.Pacer().Next(&c.state.PacedAt, mtu)
}

// sent counts a packet of the media sender.
func (c *congestionControl) sent(now clock.Time, n int) {
	c.state.Charge(n, now)
	c.state.Packets.Add(1)
	c.state.Bytes.Add(uint64(n))
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
