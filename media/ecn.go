package media

import (
	"github.com/quic-go/quic-go"

	"sluice/claim"
)

// ecn finds out whether packets may have ECN marks, and what the path has made of these marks (RFC 9000 §13.4). Both
// senders mark the packets of media with ECT(0), or with ECT(1) for a scalable controller. quic-go marks its first
// packets with ECT(0), until it learns that the peer has counted more: so there may be a few more marks than ours.
// It is guarded by the sender's lock.
//
// A path begins with marks. They end when they turn out to do no good, with a reason that is counted, or when a probe
// timeout comes before any of them was acknowledged: that may be why. Then packets without marks are sent, until one of
// those with marks is acknowledged after all.
type ecn struct {
	path     *path
	state    *claim.ConnState
	counters *Counters

	phase  ecnPhase
	newly  uint64     // packets with marks that the present ACK frame newly acknowledges
	onlyCE uint64     // packets with marks that were acknowledged before any mark arrived as it was
	counts markCounts // with the highest number acknowledged
}

// markCounts are counts of the peer.
type markCounts struct {
	kept, ce uint64 // packets with our mark, and with CE
	other    uint64 // with the mark that we do not use
}

// sent reports whether as many packets were sent, which have numbers below next.
func (c markCounts) sent(next uint64) bool {
	return c.kept <= next && c.ce <= next-c.kept && c.other <= next-c.kept-c.ce
}

// within reports whether none of the counts exceeds its counterpart.
func (c markCounts) within(o markCounts) bool {
	return c.kept <= o.kept && c.ce <= o.ce && c.other <= o.other
}

// ecnPhase is the state of a path.
type ecnPhase uint8

const (
	ecnOff     ecnPhase = iota // there is no path, the system cannot mark packets, or the path has failed the test
	ecnTesting                 // packets are marked, and none of them was acknowledged
	ecnPaused                  // none was acknowledged in time: packets are not marked
	ecnCapable                 // marks arrive
)

func (p ecnPhase) String() string { return [...]string{"off", "testing", "paused", "capable"}[p] }

// ECN bits of packets (RFC 3168 §5, RFC 9331 §4.1).
const (
	ect1 = 1
	ect0 = 2
)

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
		mark = uint32(e.path.mark)
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
	if e.phase == ecnOff {
		return 0
	}
	c, old := e.countsOf(a), e.counts
	if r := e.check(c, next); r != none {
		e.fail(r)
		return 0
	}
	e.counts = c
	if ce := c.ce - old.ce; e.phase == ecnCapable {
		e.counters.CongestedPackets += ce
		return int(ce)
	}
	e.validate(e.newly, c.kept > old.kept)
	return 0
}

func (e *ecn) countsOf(a *quic.AckInfo) markCounts {
	if e.path.mark == ect1 {
		return markCounts{kept: a.ECT1, ce: a.ECNCE, other: a.ECT0}
	}
	return markCounts{kept: a.ECT0, ce: a.ECNCE, other: a.ECT1}
}

// check returns why the counts show that marks do not arrive as they were sent.
func (e *ecn) check(c markCounts, next uint64) Reason {
	switch {
	case e.newly > 0 && c.kept == 0 && c.ce == 0:
		return ECNUnreported
	case !e.counts.within(c), c.other > 0 && e.path.mark == ect0, !c.sent(next):
		return ECNMiscounted
	case c.kept-e.counts.kept+c.ce-e.counts.ce < e.newly:
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
