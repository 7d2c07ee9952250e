package congestion

import (
	"math"
	"time"
)

// bbrModel is how BBR sees the path: the highest rate that it has delivered (maxBW), its lowest RTT (bbrRTT), and how
// much could be in flight without loss (inflightLong, inflightShort). How much may be sent follows from that. Volumes
// are in bytes, rates in bytes per second.
type bbrModel struct {
	mtu      float64
	initial  float64 // window of a new path
	window   float64
	pacing   float64 // rate; 0: no sample yet
	delivery deliveryRate
	sample   deliverySample // the last one
	inFlight float64        // after the last ACK

	state  bbrState
	round  bbrRound
	probe  bbrProbe
	rtt    bbrRTT
	full   bbrFull
	losses bbrLosses

	bw            float64 // that packets are paced by: the lower of maxBW and bwShort
	maxBW         maxFilter
	bwShort       float64 // the path's rate when packets were lost lately; infinite: none was
	inflightLong  float64 // how much was in flight when probing for bandwidth caused losses; infinite: it did not
	inflightShort float64 // how much the path delivered in a round trip when packets were lost lately

	extra bbrExtra
}

func (m *bbrModel) updateRound() {
	m.round.start = m.sample.prior >= m.round.next
	if m.round.start {
		m.startRound()
		m.round.count++
		m.probe.rounds++
	}
}

func (m *bbrModel) startRound() { m.round.next = m.delivery.delivered }

// updateExtra estimates by how much ACKs exceed the bytes that the path delivers in the same time. Wireless links and
// receivers gather ACKs; with that much more in flight the sender goes on meanwhile.
func (m *bbrModel) updateExtra(e AckEvent) {
	x := &m.extra
	if m.sample.resumed {
		x.since, x.delivered = e.Now, 0
	}
	expected := m.bw * e.Now.Sub(x.since).Seconds()
	if x.delivered <= expected {
		x.since, x.delivered, expected = e.Now, 0, 0
	}
	x.delivered += float64(e.Bytes)
	if m.round.start {
		if x.rounds++; x.rounds >= bbrExtraRounds || !m.full.reached {
			x.filter.next()
			x.rounds = 0
		}
	}
	x.filter.add(min(x.delivered-expected, m.window))
}

// updatePacing lowers the rate only once the path was full: until then, samples say too little.
func (m *bbrModel) updatePacing(e AckEvent) {
	if m.pacing == 0 && e.SRTT > 0 {
		m.pacing = bbrStartupGain * m.initial / e.SRTT.Seconds()
	}
	if rate := m.state.gain() * m.bw * bbrPacingMargin; rate > 0 && (m.full.reached || rate > m.pacing) {
		m.pacing = rate
	}
}

func (m *bbrModel) updateWindow(acked float64) {
	gain := float64(bbrWindowGain)
	if m.state == bbrProbeUp {
		gain = bbrUpWindowGain
	}
	limit := m.withMargins(m.bdp(gain) + m.extra.filter.value())
	switch {
	case m.full.reached:
		m.window = min(m.window+acked, limit)
	case m.window < limit || m.delivery.delivered < m.initial:
		m.window += acked
	}
	if m.state == bbrProbeRTT {
		m.window = min(m.window, m.probeRTTWindow())
	}
	m.window = min(m.window, m.bound(), MaxWindow)
	m.window = max(m.window, bbrMinPackets*m.mtu)
}

// bound returns the volume in flight that recent losses allow.
func (m *bbrModel) bound() float64 {
	bound := m.inflightShort
	switch {
	case m.state == bbrProbeCruise || m.state == bbrProbeRTT:
		bound = min(bound, m.inflightWithHeadroom())
	case m.state.probeBW():
		bound = min(bound, m.inflightLong)
	}
	return bound
}

// bdp returns a multiple of the bytes that the path holds without a queue.
func (m *bbrModel) bdp(gain float64) float64 {
	if m.rtt.min == 0 {
		return m.initial
	}
	return gain * m.bw * m.rtt.min.Seconds()
}

// inflight returns how much in flight uses that multiple of the path.
func (m *bbrModel) inflight(gain float64) float64 { return m.withMargins(m.bdp(gain)) }

// withMargins rounds a volume up to the grain of packets and timers.
func (m *bbrModel) withMargins(volume float64) float64 {
	volume = max(volume, m.pacing*time.Millisecond.Seconds(), bbrMinPackets*m.mtu)
	if m.state == bbrProbeUp {
		volume += 2 * m.mtu
	}
	return volume
}

// inflightWithHeadroom leaves room for other flows at the bottleneck.
func (m *bbrModel) inflightWithHeadroom() float64 {
	if math.IsInf(m.inflightLong, 1) {
		return m.inflightLong
	}
	return max(m.inflightLong-max(m.mtu, bbrHeadroom*m.inflightLong), bbrMinPackets*m.mtu)
}

func (m *bbrModel) probeRTTWindow() float64 { return max(m.bdp(bbrProbeRTTGain), bbrMinPackets*m.mtu) }

// tooMuchLost reports whether more was lost since a packet was sent than probing for bandwidth may cause.
func (m *bbrModel) tooMuchLost(s *deliverySample) bool { return s.lost > bbrLossThreshold*s.inFlight() }

// adaptToLosses slows down after a round trip with losses, unless they were to be expected.
func (m *bbrModel) adaptToLosses() {
	l := &m.losses
	if m.state.probing() || !l.inRound {
		return
	}
	if math.IsInf(m.bwShort, 1) {
		m.bwShort = m.maxBW.value()
	}
	if math.IsInf(m.inflightShort, 1) {
		m.inflightShort = m.window
	}
	m.bwShort = max(l.bw, bbrBeta*m.bwShort)
	m.inflightShort = max(l.inflight, bbrBeta*m.inflightShort)
}

// noteLoss remembers the state before the first loss of an event.
func (m *bbrModel) noteLoss(e LossEvent) {
	l := &m.losses
	if !l.inRound {
		l.next = m.delivery.delivered
	}
	l.inRound = true
	l.packets += e.Packets
	l.bytes += float64(e.Bytes)
	if e.Sent <= l.recovery {
		l.lost += e.Packets
		return
	}
	l.recovery, l.lost, l.spurious = e.Now, e.Packets, 0
	l.undo = bbrUndo{bbrDrain, m.window, m.bwShort, m.inflightShort, m.inflightLong}
}

// limitedByLong reports whether inflightLong alone kept more from being in flight.
func (m *bbrModel) limitedByLong(e AckEvent) bool {
	return float64(e.InFlight)+m.mtu > m.window && m.window >= m.inflightLong
}

// raiseLong lets inflightLong grow while it is the limit: by 1, 2, 4, … packets a round trip.
func (m *bbrModel) raiseLong(e AckEvent) {
	if !m.limitedByLong(e) {
		return
	}
	p := &m.probe
	if p.upAcked += float64(e.Bytes); p.upAcked >= p.ackedPerPacket {
		n := math.Floor(p.upAcked / p.ackedPerPacket)
		p.upAcked -= n * p.ackedPerPacket
		m.inflightLong += n * m.mtu
	}
	if m.round.start {
		m.raiseSlope()
	}
}

func (m *bbrModel) raiseSlope() {
	growth := float64(uint64(1) << m.probe.upRounds)
	m.probe.upRounds = min(m.probe.upRounds+1, 30)
	m.probe.ackedPerPacket = max(m.window/growth, m.mtu)
}
