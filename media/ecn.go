package media

import (
	"github.com/quic-go/quic-go"

	"sluice/claim"
)

// ecn finds out whether packets may have ECN marks, and what the path has made of these marks (RFC 9000 §13.4). Both
// senders mark the packets of media with ECT(0). quic-go marks its first packets, too, until it learns that the peer
// has counted more: so there may be a few more marks than ours. It is guarded by the sender's lock.
//
// A path begins with marks. They end when they turn out to do no good, with a reason that is counted, or when a probe
// timeout comes before any of them was acknowledged: that may be why. Then packets without marks are sent, until one of
// those with marks is acknowledged after all.
type ecn struct {
	path     *path
	state    *claim.ConnState
	counters *Counters

	phase    ecnPhase
	newly    uint64 // packets with marks that the present ACK frame newly acknowledges
	onlyCE   uint64 // packets with marks that were acknowledged before any mark arrived as it was
	ect0, ce uint64 // the peer's counts, with the highest number acknowledged
}

// ecnPhase is what is known about a path.
type ecnPhase uint8

const (
	ecnOff     ecnPhase = iota // there is no path, the system cannot mark packets, or the path has failed the test
	ecnTesting                 // packets are marked, and none of them was acknowledged
	ecnPaused                  // none was acknowledged in time: packets are not marked
	ecnCapable                 // marks arrive
)

func (p ecnPhase) String() string { return [...]string{"off", "testing", "paused", "capable"}[p] }

// ect0 is the mark of packets (RFC 3168 §5).
const ect0 = 2

// mangledAfter is how many marked packets may all have been congested before the path is thought to mark all
// (RFC 9000 §A.4).
const mangledAfter = 10

// begin begins with a new path.
func (e *ecn) begin() {
	e.onlyCE = 0
	if e.path.marked == nil {
		e.enter(ecnOff)
		return
	}
	e.enter(ecnTesting)
}

// enter makes both senders mark packets, or not.
func (e *ecn) enter(phase ecnPhase) {
	e.phase = phase
	mark := uint32(0)
	if e.marks() {
		mark = ect0
	}
	e.state.ECN.Store(mark)
	e.path.choose(mark != 0)
}

// marks reports whether packets are marked.
func (e *ecn) marks() bool { return e.phase == ecnTesting || e.phase == ecnCapable }

// fail ends the use of marks on the path.
func (e *ecn) fail(reason Reason) {
	e.counters.count(reason)
	e.enter(ecnOff)
}

// timeout notes a probe timeout. Perhaps marked packets do not arrive.
func (e *ecn) timeout() {
	if e.phase == ecnTesting {
		e.counters.count(ECNUnanswered)
		e.enter(ecnPaused)
	}
}

// acked notes that a packet is acknowledged that was sent on this path.
func (e *ecn) acked(p claim.Info) {
	if p.Has(claim.FlagMarked) {
		e.newly++
	}
}

// receive takes the counts of an ACK frame that acknowledges a higher number than those before; next is the next
// number. It returns how many more packets have met congestion. What is in the counts of other ACK frames is in those
// of the next one, too (RFC 9000 §13.4.2.1).
func (e *ecn) receive(a *quic.AckInfo, next uint64) (congested int) {
	newly, ce := e.newly, a.ECNCE-e.ce
	if e.phase == ecnOff {
		return 0
	}
	if r := e.check(a, newly, next); r != none {
		e.fail(r)
		return 0
	}
	marked := a.ECT0 > e.ect0
	e.ect0, e.ce = a.ECT0, a.ECNCE
	if e.phase == ecnCapable {
		e.counters.CongestedPackets += ce
		return int(ce)
	}
	e.validate(newly, marked)
	return 0
}

// check returns why the counts show that marks do not arrive as they were sent.
func (e *ecn) check(a *quic.AckInfo, newly, next uint64) Reason {
	switch {
	case newly > 0 && a.ECT0 == 0 && a.ECNCE == 0:
		return ECNUnreported
	case a.ECT0 < e.ect0 || a.ECNCE < e.ce || a.ECT1 > 0, a.ECT0 > next || a.ECNCE > next-a.ECT0:
		return ECNMiscounted
	case a.ECT0-e.ect0+a.ECNCE-e.ce < newly:
		return ECNBleached
	}
	return none
}

// validate decides about a path that is not known to be capable. Congestion on it is not believed: it might mark all.
func (e *ecn) validate(newly uint64, marked bool) {
	switch {
	case newly == 0:
	case marked:
		e.enter(ecnCapable)
	default:
		if e.onlyCE += newly; e.onlyCE >= mangledAfter {
			e.fail(ECNMangled)
		}
	}
}
