package congestion

import (
	"time"

	"sluice/clock"
)

// Constants of draft-briscoe-iccrg-prague-congestion-control.
const (
	pragueGain       = 1.0 / 16              // of a round in the mean
	pragueVirtualRTT = 25 * time.Millisecond // shorter round trips count as that, so that they bring no advantage
)

// prague is the Prague congestion controller, for paths that mark packets as soon as they wait (L4S, RFC 9330). It is
// CUBIC, but for its response to marks: once a round trip, the window shrinks by half of the share of packets that had
// marks lately (share). From then on it grows as Reno does, by a packet in a round trip, so that the next marks come
// soon: CUBIC's curve, which begins flat, overtakes that only after seconds without marks, on a path that has become
// faster. A path without marks has CUBIC, and so has a path that marks as RFC 3168 says.
type prague struct {
	cubic
	share     float64    // of packets with marks, in the mean; 1 until the first marks
	began     clock.Time // the round that is measured
	packets   int        // acknowledged in it
	congested int        // of these, with marks
	reduced   clock.Time // when marks have reduced the window; 0: never
	classic   classic    // whether marks count as losses
}

// NewPrague returns a Prague congestion controller (draft-briscoe-iccrg-prague-congestion-control), for packets of at
// most mtu bytes.
func NewPrague(mtu int) Controller {
	p := new(prague)
	p.Reset(mtu)
	return p
}

func (p *prague) Reset(mtu int) {
	*p = prague{share: 1}
	p.cubic.Reset(mtu)
}

func (*prague) String() string { return "prague" }

// Smooth implements [Scalable]: as soon as the path has marked packets.
func (p *prague) Smooth() bool { return p.reduced != 0 }

func (p *prague) Acked(e AckEvent) {
	marked := min(e.CE, e.Packets)
	p.measure(e, marked)
	if p.classic.found {
		p.reno = 1
		p.cubic.Acked(e)
		return
	}
	if marked > 0 && e.Sent > p.recovery && p.over(p.reduced, e) {
		p.reduceBy(e)
	}
	if marked > 0 { // marked packets are no reason to grow
		e.Bytes -= e.Bytes * marked / e.Packets
	}
	e.CE = 0
	p.cubic.Acked(e)
}

// over reports whether a round that began then is over: a packet was acknowledged that was sent later.
func (p *prague) over(began clock.Time, e AckEvent) bool {
	return e.Sent > began && e.Now.Sub(began) >= pragueVirtualRTT
}

// measure counts marks, from the first one on.
func (p *prague) measure(e AckEvent, marked int) {
	p.packets += e.Packets
	p.congested += marked
	p.classic.acked(e)
	if !p.over(p.began, e) {
		return
	}
	if p.reduced != 0 {
		p.share += pragueGain * (float64(p.congested)/float64(p.packets) - p.share)
	}
	p.classic.endRound(e, p.congested > 0, p.window, p.mtu)
	p.began, p.packets, p.congested = e.Now, 0, 0
}

// reduceBy reduces the window by the share of marks. In slow start it halves the window, which has just doubled.
func (p *prague) reduceBy(e AckEvent) {
	if p.window < p.ssthresh {
		p.share = 1
	}
	p.reduced = e.Now
	p.cubic.marked = true // a loss before was none by mistake
	p.window = max(p.window*(1-p.share/2), 2*p.mtu)
	p.ssthresh, p.wMax, p.prior, p.epoch = p.window, p.window, 0, 0
	short := min(e.SRTT.Seconds()/pragueVirtualRTT.Seconds(), 1)
	p.reno = short * short
}
