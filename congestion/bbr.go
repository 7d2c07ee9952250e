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

// bbr is the BBR congestion controller, version 3 (draft-ietf-ccwg-bbr): a bbrModel, and the states that find it out.
//
// Video leaves the path empty most of the time. So the draft's exceptions for applications that limit the rate are the
// rule here: their samples count only if they raise maxBW, startup may last as long as the connection, and a pause
// or a low RTT makes ProbeRTT unnecessary, see bbrRTT.
type bbr struct {
	bbrModel
	prior  float64    // window before ProbeRTT or persistent congestion
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
	*b = bbr{seeded: b.seeded, bbrModel: bbrModel{
		mtu: float64(mtu), initial: w, window: w, bwShort: inf, inflightLong: inf, inflightShort: inf,
		probe: bbrProbe{ackedPerPacket: inf}, losses: bbrLosses{recovery: -1},
	}}
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
	drained := b.sample.resumed || b.sample.inFlight() <= b.probeRTTWindow()
	expired := b.rtt.update(e, drained, b.sample.appLimited)
	b.updateProbeRTT(e, expired)
}

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
