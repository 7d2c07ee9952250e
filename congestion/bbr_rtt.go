package congestion

import (
	"math"
	"time"

	"sluice/clock"
)

const (
	bbrMinRTTWindow     = 10 * time.Second
	bbrProbeRTTInterval = 5 * time.Second
	bbrProbeRTTDuration = 200 * time.Millisecond
	bbrProbeRTTGain     = 0.5
	bbrMinRTTDivisor    = 8 // an RTT that is higher by less than this part shows no queue (RFC 9406 §4.3)
)

// bbrRTT is the RTT of the path without a queue. A flow that has had so little in flight as ProbeRTT allows, since it
// measured the RTT last, has measured it without a queue of its own. It need not drain the path. The draft asks only
// whether the path was empty just now, which the first of the ACKs of a video frame finds. Where frames overlap, since
// the RTT is longer than the time between them, the path is never empty. But while the application limits the flow, an
// RTT as low as the lowest has met no queue either: it counts as measured again, and the lowest stays.
type bbrRTT struct {
	min     time.Duration // in the last 10 s; 0: not known
	minAt   clock.Time
	short   time.Duration // in the last 5 s
	shortAt clock.Time
	drained bool // there was little in flight since shortAt

	done  clock.Time // when ProbeRTT may end; 0: the path is not yet drained
	round bool       // a round trip has passed since it is
}

// update takes the RTT of an ACK, which may be of packets that were sent with little in flight, or while the
// application limited the flow. It reports whether the path should be drained to measure the RTT.
func (r *bbrRTT) update(e AckEvent, drained, appLimited bool) (expired bool) {
	rtt := e.LatestRTT
	if appLimited && rtt <= r.min+r.min/bbrMinRTTDivisor {
		r.minAt, r.shortAt = e.Now, e.Now
	}
	r.drained = r.drained || drained
	expired = e.Now > r.shortAt.Add(bbrProbeRTTInterval)
	if r.short == 0 || rtt < r.short || expired {
		expired = expired && r.short != 0 && !r.drained
		r.short, r.shortAt, r.drained = rtt, e.Now, false
	}
	if r.min == 0 || r.short < r.min || e.Now > r.minAt.Add(bbrMinRTTWindow) {
		r.min, r.minAt = r.short, r.shortAt
	}
	return expired
}

// updateProbeRTT begins and ends ProbeRTT.
func (b *bbr) updateProbeRTT(e AckEvent, expired bool) {
	r := &b.rtt
	if b.state != bbrProbeRTT {
		if !expired {
			return
		}
		b.state, b.prior = bbrProbeRTT, b.window
		b.probe.phase = bbrAcksStopping
		r.done = 0
		b.startRound()
	}
	b.delivery.limit(b.inFlight)
	switch {
	case r.done == 0 && b.inFlight <= b.probeRTTWindow():
		r.done, r.round = e.Now.Add(bbrProbeRTTDuration), false
		b.startRound()
	case r.done != 0:
		r.round = r.round || b.round.start
		if r.round && e.Now > r.done {
			b.endProbeRTT(e.Now)
		}
	}
}

func (b *bbr) endProbeRTT(now clock.Time) {
	b.rtt.shortAt = now
	b.window = max(b.window, b.prior)
	b.bwShort, b.inflightShort = math.Inf(1), math.Inf(1)
	if b.full.reached {
		b.startProbeDown(now)
		b.state = bbrProbeCruise
		return
	}
	b.state = bbrStartup
}
