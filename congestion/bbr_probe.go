package congestion

import (
	"math"
	"time"

	"sluice/clock"
)

// Time between two probes for bandwidth: long enough for Reno and CUBIC flows on the same path to recover (draft-ietf-
// ccwg-bbr, Time Scale for Bandwidth Probing).
const (
	bbrProbeWait      = 2 * time.Second
	bbrProbeWaitMore  = time.Second // at most, by chance
	bbrMaxProbeRounds = 63
)

// bbrProbe is where BBR is in its cycle: down, cruise, refill, up.
type bbrProbe struct {
	began      clock.Time // the cycle
	wait       time.Duration
	rounds     int // since the last probe
	drainRound int // round in which drain began

	phase          bbrAcks
	samples        bool // ACKs are of packets that were sent to probe
	tooHigh        bool // the last probe caused losses
	precautious    bool // this one ended when it came to where the last one caused losses
	upRounds       int
	upAcked        float64 // since inflightLong has grown
	ackedPerPacket float64 // bytes that let inflightLong grow by one packet
}

// bbrAcks is which packets ACKs are of.
type bbrAcks uint8

const (
	bbrAcksOther    bbrAcks = iota
	bbrAcksRefill           // of packets that refill the path
	bbrAcksStarting         // the probe has begun, but not its ACKs
	bbrAcksProbe            // of packets that probe
	bbrAcksStopping         // the probe is over, but not its ACKs
)

func (b *bbr) startProbeDown(now clock.Time) {
	b.losses.begin()
	p := &b.probe
	p.ackedPerPacket = math.Inf(1)
	p.rounds = int(2 * b.random())
	p.wait = bbrProbeWait + time.Duration(b.random()*float64(bbrProbeWaitMore))
	p.began, p.phase = now, bbrAcksStopping
	b.startRound()
	b.state = bbrProbeDown
}

func (b *bbr) startProbeRefill() {
	b.bwShort, b.inflightShort = math.Inf(1), math.Inf(1)
	p := &b.probe
	p.upRounds, p.upAcked, p.precautious, p.phase = 0, 0, false, bbrAcksRefill
	b.startRound()
	b.state = bbrProbeRefill
}

func (b *bbr) startProbeUp() {
	b.probe.samples, b.probe.phase = true, bbrAcksStarting
	b.startRound()
	b.full.begin(b.sample.rate)
	b.state = bbrProbeUp
	b.raiseSlope()
}

// updateProbe goes through the cycle.
func (b *bbr) updateProbe(e AckEvent) {
	if !b.full.reached || b.adaptLong(e) {
		return
	}
	switch b.state {
	case bbrProbeDown:
		if !b.probeAgain(e.Now) && b.inFlight <= b.inflightWithHeadroom() && b.inFlight <= b.inflight(1) {
			b.state = bbrProbeCruise
		}
	case bbrProbeCruise:
		b.probeAgain(e.Now)
	case bbrProbeRefill:
		if b.round.start {
			b.startProbeUp()
		}
	case bbrProbeUp:
		if b.upIsOver(e) {
			b.probe.tooHigh = false
			b.startProbeDown(e.Now)
		}
	}
}

// probeAgain begins to probe when it is time: after a while, or after as many round trips as Reno would need to fill
// the path again.
func (b *bbr) probeAgain(now clock.Time) bool {
	reno := min(min(b.bdp(1), b.window)/b.mtu, bbrMaxProbeRounds)
	if now <= b.probe.began.Add(b.probe.wait) && float64(b.probe.rounds) < reno {
		return false
	}
	b.startProbeRefill()
	return true
}

// upIsOver reports whether the probe has found the limit, or has come to where the last one caused losses.
func (b *bbr) upIsOver(e AckEvent) bool {
	switch {
	case b.probe.tooHigh && b.inFlight >= b.inflightLong:
		b.probe.precautious = true
		return true
	case b.limitedByLong(e):
		b.full.begin(b.sample.rate)
		return false
	}
	return b.full.now
}

// adaptLong adapts the long-term model. It reports whether that has changed the state.
func (b *bbr) adaptLong(e AckEvent) (changed bool) {
	p := &b.probe
	switch {
	case !b.round.start:
	case p.phase == bbrAcksStarting:
		p.phase = bbrAcksProbe
	case p.phase == bbrAcksStopping:
		p.samples, p.phase = false, bbrAcksOther
		if b.state.probeBW() && !b.sample.appLimited {
			b.maxBW.next()
		}
		if b.state.probeBW() && p.precautious && !p.tooHigh {
			b.startProbeRefill()
			return true
		}
	}
	if b.tooMuchLost(&b.sample) || math.IsInf(b.inflightLong, 1) {
		return false
	}
	b.inflightLong = max(b.inflightLong, b.sample.inFlight())
	if b.state == bbrProbeUp {
		b.raiseLong(e)
	}
	return false
}
