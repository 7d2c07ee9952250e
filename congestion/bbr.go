package congestion

import (
	"math"
	"math/rand/v2"
	"time"

	"sluice/clock"
)

// Constants of draft-ietf-ccwg-bbr.
const (
	bbrStartupGain   = 2.77
	bbrDrainGain     = 0.5
	bbrWindowGain    = 2
	bbrUpWindowGain  = 2.25
	bbrPacingMargin  = 0.99
	bbrLossThreshold = 0.02
	bbrBeta          = 0.7
	bbrHeadroom      = 0.15
	bbrMinPackets    = 4

	bbrFullGrowth    = 1.25 // more growth than that in a round trip: the path is not full
	bbrFullRounds    = 3
	bbrStartupLosses = 6 // packets in a round trip. The draft counts gaps, which a LossEvent does not tell
	bbrDrainRounds   = 3
	bbrExtraRounds   = 5 // of a period of the filter, which holds two: the draft remembers 10
)

// bbr is the BBR congestion controller, version 3 (draft-ietf-ccwg-bbr). It has a model of the path: the highest rate
// that it has delivered (maxBW), its lowest RTT (bbrRTT), and how much could be in flight without loss (inflightLong,
// inflightShort). Volumes are in bytes, rates in bytes per second.
//
// Video leaves the path empty most of the time. So the draft's exceptions for applications that limit the rate are the
// rule here: their samples count only if they raise maxBW, startup may last as long as the connection, and a pause
// makes ProbeRTT unnecessary, see bbrRTT.
type bbr struct {
	mtu      float64
	initial  float64 // window of a new path
	window   float64
	prior    float64 // window before ProbeRTT or persistent congestion
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

	seeded *rand.Rand // nil: random numbers are others each time
}

// bbrState is a state of BBR.
type bbrState uint8

const (
	bbrStartup     bbrState = iota // doubles its rate each round trip
	bbrDrain                       // drains the queue that startup made
	bbrProbeDown                   // drains the queue that the last probe made
	bbrProbeCruise                 // sends as fast as the path delivers
	bbrProbeRefill                 // fills the path before it sends faster
	bbrProbeUp                     // sends faster
	bbrProbeRTT                    // drains the path to measure its RTT
)

// probing reports whether the state probes for bandwidth, so that losses say where the limit is.
func (s bbrState) probing() bool { return s == bbrStartup || s == bbrProbeRefill || s == bbrProbeUp }

// probeBW reports whether it is one of the states that follow each other for most of the time.
func (s bbrState) probeBW() bool { return s >= bbrProbeDown && s <= bbrProbeUp }

// gain returns how many times the bandwidth packets leave.
func (s bbrState) gain() float64 {
	return [...]float64{bbrStartupGain, bbrDrainGain, 0.9, 1, 1, 1.25, 1}[s]
}

// bbrRound counts round trips: one ends when a packet is acknowledged that was sent after its begin.
type bbrRound struct {
	count int
	start bool    // the last ACK began one
	next  float64 // bytes that had been delivered when it began
}

// bbrExtra is by how much ACKs come late and then at once, see extra.update.
type bbrExtra struct {
	since     clock.Time
	delivered float64 // since then
	filter    maxFilter
	rounds    int
}

// NewBBR returns a BBR congestion controller (draft-ietf-ccwg-bbr), for packets of at most mtu bytes.
func NewBBR(mtu int) Controller {
	b := new(bbr)
	b.Reset(mtu)
	return b
}

// uniform is replaced by tests.
var uniform = rand.Float64

// Seed implements [Seeder].
func (b *bbr) Seed(seed uint64) { b.seeded = rand.New(rand.NewPCG(seed, 'b')) }

// random returns a number from 0 to 1.
func (b *bbr) random() float64 {
	if b.seeded != nil {
		return b.seeded.Float64()
	}
	return uniform()
}

func (b *bbr) Reset(mtu int) {
	w, inf := float64(initialWindow(mtu)), math.Inf(1)
	*b = bbr{
		seeded: b.seeded, mtu: float64(mtu), initial: w, window: w, bwShort: inf, inflightLong: inf, inflightShort: inf,
		probe: bbrProbe{ackedPerPacket: inf}, losses: bbrLosses{recovery: -1},
	}
}

func (*bbr) String() string { return "bbr" }

func (b *bbr) Window() int { return int(b.window) }

func (b *bbr) Rate(srtt time.Duration) int64 {
	if b.pacing > 0 {
		return int64(b.pacing)
	}
	if srtt <= 0 {
		srtt = initialRTT
	}
	return int64(bbrStartupGain * b.window / srtt.Seconds())
}

func (b *bbr) Sent(clock.Time, int, int) {}

func (b *bbr) Acked(e AckEvent) {
	if e.CE > 0 { // like losses: the draft leaves the response open (§ECN)
		marked := min(e.CE*int(b.mtu), e.Bytes)
		b.respond(LossEvent{Now: e.Now, Packets: e.CE, Bytes: marked, Sent: e.Sent})
		b.delivery.arrived(marked)
	}
	b.sample = b.delivery.acked(e, b.rtt.min)
	b.inFlight = float64(max(e.InFlight-e.Bytes, 0))
	if b.sample.known {
		b.updateModel(e)
		b.updateState(e)
		b.losses.endRound(&b.sample)
		b.bw = min(b.maxBW.value(), b.bwShort)
	}
	b.updatePacing(e)
	b.updateWindow(float64(e.Bytes))
}

func (b *bbr) updateModel(e AckEvent) {
	b.updateRound()
	b.losses.beginRound(&b.sample, b.delivery.delivered)
	if s := &b.sample; s.rate >= b.maxBW.value() || !s.appLimited {
		b.maxBW.add(s.rate)
	}
	if b.losses.round {
		b.adaptToLosses()
	}
	b.updateExtra(e)
	b.full.update(b)
}

func (b *bbr) updateState(e AckEvent) {
	b.updateStartup()
	if b.state == bbrDrain &&
		(b.inFlight <= b.inflight(1) || b.round.count > b.probe.drainRound+bbrDrainRounds) {
		b.startProbeDown(e.Now)
	}
	b.updateProbe(e)
	expired := b.rtt.update(e, b.sample.resumed || b.sample.inFlight() <= b.probeRTTWindow())
	b.updateProbeRTT(e, expired)
}

func (b *bbr) updateRound() {
	b.round.start = b.sample.prior >= b.round.next
	if b.round.start {
		b.startRound()
		b.round.count++
		b.probe.rounds++
	}
}

func (b *bbr) startRound() { b.round.next = b.delivery.delivered }

// updateStartup ends startup when the path is full, or when it drops packets.
func (b *bbr) updateStartup() {
	if b.state != bbrStartup {
		return
	}
	if b.losses.startupOver(b) {
		b.losses.undo.state = bbrStartup
		b.full.reached, b.full.now = true, true
		b.inflightLong = max(b.bdp(1), b.losses.inflight)
	}
	if b.full.reached {
		b.state = bbrDrain
		b.probe.drainRound = b.round.count
	}
}

// updateExtra estimates by how much ACKs exceed the bytes that the path delivers in the same time. Wireless links and
// receivers gather ACKs; with that much more in flight the sender goes on meanwhile.
func (b *bbr) updateExtra(e AckEvent) {
	x := &b.extra
	if b.sample.resumed {
		x.since, x.delivered = e.Now, 0
	}
	expected := b.bw * e.Now.Sub(x.since).Seconds()
	if x.delivered <= expected {
		x.since, x.delivered, expected = e.Now, 0, 0
	}
	x.delivered += float64(e.Bytes)
	if b.round.start {
		if x.rounds++; x.rounds >= bbrExtraRounds || !b.full.reached {
			x.filter.next()
			x.rounds = 0
		}
	}
	x.filter.add(min(x.delivered-expected, b.window))
}

// bdp returns a multiple of the bytes that the path holds without a queue.
func (b *bbr) bdp(gain float64) float64 {
	if b.rtt.min == 0 {
		return b.initial
	}
	return gain * b.bw * b.rtt.min.Seconds()
}

// inflight returns how much in flight uses that multiple of the path.
func (b *bbr) inflight(gain float64) float64 { return b.withMargins(b.bdp(gain)) }

// withMargins rounds a volume up to the grain of packets and timers.
func (b *bbr) withMargins(volume float64) float64 {
	volume = max(volume, b.pacing*time.Millisecond.Seconds(), bbrMinPackets*b.mtu)
	if b.state == bbrProbeUp {
		volume += 2 * b.mtu
	}
	return volume
}

// updatePacing lowers the rate only once the path was full: until then, samples say too little.
func (b *bbr) updatePacing(e AckEvent) {
	if b.pacing == 0 && e.SRTT > 0 {
		b.pacing = bbrStartupGain * b.initial / e.SRTT.Seconds()
	}
	if rate := b.state.gain() * b.bw * bbrPacingMargin; rate > 0 && (b.full.reached || rate > b.pacing) {
		b.pacing = rate
	}
}

func (b *bbr) updateWindow(acked float64) {
	gain := float64(bbrWindowGain)
	if b.state == bbrProbeUp {
		gain = bbrUpWindowGain
	}
	limit := b.withMargins(b.bdp(gain) + b.extra.filter.value())
	switch {
	case b.full.reached:
		b.window = min(b.window+acked, limit)
	case b.window < limit || b.delivery.delivered < b.initial:
		b.window += acked
	}
	if b.state == bbrProbeRTT {
		b.window = min(b.window, b.probeRTTWindow())
	}
	b.window = min(b.window, b.bound(), MaxWindow)
	b.window = max(b.window, bbrMinPackets*b.mtu)
}

// bound returns the volume in flight that recent losses allow.
func (b *bbr) bound() float64 {
	bound := b.inflightShort
	switch {
	case b.state == bbrProbeCruise || b.state == bbrProbeRTT:
		bound = min(bound, b.inflightWithHeadroom())
	case b.state.probeBW():
		bound = min(bound, b.inflightLong)
	}
	return bound
}

// bbrFull finds out that the path is full: the rate does not grow although more is sent.
type bbrFull struct {
	reached bool // ever
	now     bool
	rate    float64
	count   int // round trips without growth
}

// begin begins to look, for growth beyond a rate.
func (f *bbrFull) begin(rate float64) { *f = bbrFull{reached: f.reached, rate: rate} }

func (f *bbrFull) update(b *bbr) {
	s := &b.sample
	switch {
	case f.now || !b.round.start || s.appLimited || s.rate == 0:
	case s.rate >= f.rate*bbrFullGrowth:
		f.begin(s.rate)
	default:
		f.count++
		f.now = f.count >= bbrFullRounds
		f.reached = f.reached || f.now
	}
}
