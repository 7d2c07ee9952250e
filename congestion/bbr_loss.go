package congestion

import (
	"sluice/clock"
)

// bbrLosses is how BBR responds to losses: once each round trip, towards the path's delivery in that round trip.
type bbrLosses struct {
	round   bool    // the last ACK ended a round trip
	next    float64 // bytes that had been delivered when it began
	inRound bool    // packets were lost in it
	packets int     // of these
	bytes   float64
	earlier bool // packets were lost in the round trip before

	bw, inflight float64 // most that the path has delivered in the round trip

	recovery clock.Time // packets sent until then that are lost belong to the same event
	lost     int        // packets lost in the event
	spurious int        // of these, that arrived after all
	undo     bbrUndo
}

// bbrUndo holds the values before an event.
type bbrUndo struct {
	state                                        bbrState // that the event ended; bbrDrain: none
	window, bwShort, inflightShort, inflightLong float64
}

// begin begins to look at the path's delivery.
func (l *bbrLosses) begin() { l.inRound, l.bw, l.inflight = false, 0, 0 }

// beginRound notes the rate and the delivered bytes of a sample, and whether the round trip is over.
func (l *bbrLosses) beginRound(s *deliverySample, delivered float64) {
	l.bw, l.inflight = max(l.bw, s.rate), max(l.inflight, s.delivered)
	if l.round = s.prior >= l.next; l.round {
		l.next = delivered
	}
}

// endRound is called when the model knows what happened in the round trip.
func (l *bbrLosses) endRound(s *deliverySample) {
	if l.round {
		l.bw, l.inflight = s.rate, s.delivered
		l.earlier, l.inRound, l.packets, l.bytes = l.inRound, false, 0, 0
	}
}

// startupOver reports whether startup has caused losses: in two round trips, and in this one more than a few.
func (l *bbrLosses) startupOver(b *bbr) bool {
	return l.round && l.earlier && l.packets >= bbrStartupLosses && l.bytes > bbrLossThreshold*b.sample.inFlight()
}

func (b *bbr) Lost(e LossEvent) {
	b.respond(e)
	if e.Persistent {
		b.prior = max(b.prior, b.window)
		b.window = bbrMinPackets * b.mtu
	}
}

// respond responds to a loss, or to packets that the path has marked instead.
func (b *bbr) respond(e LossEvent) {
	s := b.delivery.lose(e)
	s.appLimited = b.sample.appLimited
	b.noteLoss(e)
	if b.probe.samples && b.tooMuchLost(&s) {
		b.respondTooHigh(e, s)
	}
}

// respondTooHigh remembers how much was in flight when a probe caused losses.
func (b *bbr) respondTooHigh(e LossEvent, s deliverySample) {
	b.probe.tooHigh, b.probe.samples = true, false
	if !s.appLimited {
		b.inflightLong = max(inflightAtLoss(float64(e.Bytes), s), bbrBeta*min(b.bdp(1), b.window))
	}
	if b.state == bbrProbeUp {
		b.losses.undo.state = bbrProbeUp
		b.startProbeDown(e.Now)
	}
}

// inflightAtLoss returns how much was in flight when losses exceeded the threshold, somewhere in the bytes that were
// found lost at last: there (lost before + x) / (in flight before + x) is the threshold.
func inflightAtLoss(bytes float64, s deliverySample) float64 {
	inFlight, lost := s.inFlight()-bytes, s.lost-bytes
	return inFlight + max(bbrLossThreshold*inFlight-lost, 0)/(1-bbrLossThreshold)
}

// Spurious undoes an event when every packet that was lost in it has arrived.
func (b *bbr) Spurious(sent clock.Time) {
	l := &b.losses
	if sent > l.recovery || l.lost == 0 {
		return
	}
	if l.spurious++; l.spurious < l.lost {
		return
	}
	u := l.undo
	l.lost, l.inRound = 0, false
	b.full.begin(0)
	b.window = max(b.window, u.window)
	b.bwShort, b.inflightShort = max(b.bwShort, u.bwShort), max(b.inflightShort, u.inflightShort)
	b.inflightLong = max(b.inflightLong, u.inflightLong)
	switch {
	case b.state == bbrProbeRTT:
	case u.state == bbrStartup && b.state != bbrStartup:
		b.full.reached, b.state = false, bbrStartup
	case u.state == bbrProbeUp && b.state != bbrProbeUp:
		b.startProbeRefill()
	}
}
