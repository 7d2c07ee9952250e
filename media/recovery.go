package media

import (
	"time"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
)

const (
	packetThreshold    = 3  // RFC 9002 §6.1.1
	maxPacketThreshold = 64 // reordering beyond this is considered loss
	persistentPTOs     = 3  // kPersistentCongestionThreshold, RFC 9002 §7.6.1
	maxPTOCount        = 6  // the backoff's exponent; quic-go closes idle connections
	probePackets       = 2  // RFC 9002 §6.2.4
	maxLostRecently    = 256
	// tick is the granularity of probe timeouts. Most of them find that everything was acknowledged; senders with the
	// same one wake their shard once. Linux's timers of TCP are as coarse (4 ms with HZ=250).
	tick = 4 * time.Millisecond
)

// recovery finds out which packets were lost (RFC 9002), of both senders. It reads the ledger, and tells the streams
// what has arrived and what has not. Packet numbers are shared with quic-go: numbers without a record are not looked
// at. It is guarded by the sender's lock.
type recovery struct {
	ledger   *ledger
	control  *congestionControl
	ecn      *ecn
	path     *path
	streams  *streamSet
	counters *Counters

	maxAckDelay  time.Duration // of the peer
	largestAcked uint64
	lostRecently []lostPacket // these may have arrived after all
	reordering   uint64       // packet threshold (RFC 9002 §6.1.1)
	lossTime     clock.Time   // when the time threshold is reached next
	lastSent     clock.Time
	ptoCount     int
	probes       int // packets that may be sent beyond the window
	ping         bool
}

// lostPacket is remembered for a while, because it might not have been lost.
type lostPacket struct {
	number  uint64
	sent    clock.Time
	skipped bool // it was not sent
}

// errNotSent closes the connection to a peer that acknowledges more than it has received (RFC 9000 §21.4).
func errNotSent() error {
	return &quic.TransportError{
		ErrorCode: quic.ProtocolViolation, ErrorMessage: "acknowledged a packet that was not sent",
	}
}

// receive processes an ACK frame. The work is proportional to what the frame newly acknowledges. It returns a sample
// of the RTT, if there is one.
func (r *recovery) receive(now clock.Time, a *quic.AckInfo) (time.Duration, error) {
	next := r.ledger.next()
	largest := min(uint64(a.Ranges[0].Largest), next-1)
	ev := congestion.AckEvent{Now: now, InFlight: int(r.ledger.state.InFlight.Load())}
	r.ecn.newly = 0
	newest, acked, err := r.acknowledge(a.Ranges, next, &ev)
	if err == nil {
		err = r.findSpurious(now, a, largest)
	}
	if err != nil {
		return 0, err
	}
	if largest > r.largestAcked {
		ev.CE = r.ecn.receive(a, next)
		r.largestAcked = largest
		r.ptoCount = 0 // also if it is a packet of quic-go's that has arrived
	}
	var sample time.Duration
	if acked {
		if newest.Number == largest && !newest.Uncounted() {
			sample = max(now.Sub(newest.Sent), 1)
			r.control.rtt.Update(now, sample, min(a.Delay, r.maxAckDelay))
		}
		r.ptoCount = 0
	}
	r.control.acked(ev, newest.Number)
	r.detectLost(now, a.Ranges)
	r.control.publish()
	r.control.pace(now, r.ledger.mtu)
	return sample, nil
}

// acknowledge takes the packets in the ranges of an ACK frame out of flight. It returns the newest of them.
func (r *recovery) acknowledge(ranges []quic.AckRange, next uint64, ev *congestion.AckEvent) (
	newest claim.Entry, found bool, err error,
) {
	for _, a := range ranges {
		if uint64(a.Largest) < r.ledger.low {
			break
		}
		for n := min(uint64(a.Largest)+1, next); n > max(uint64(a.Smallest), r.ledger.low); n-- {
			e, ok := r.ledger.records.Read(n - 1)
			if !ok || !e.Live() {
				continue
			}
			if e.Kind() == claim.KindSkipped {
				return newest, found, errNotSent()
			}
			if !found {
				newest, found = e, true
			}
			r.acknowledgePacket(e, ev)
		}
	}
	return newest, found, nil
}

func (r *recovery) acknowledgePacket(e claim.Entry, ev *congestion.AckEvent) {
	r.ledger.records.Mark(e, claim.FlagAcked)
	if !e.Uncounted() {
		r.ledger.state.InFlight.Add(uint64(-e.Size()))
		if ev.Bytes == 0 || e.Sent < ev.First {
			ev.First = e.Sent
		}
		ev.Bytes += e.Size()
		ev.Packets++
		ev.Sent = max(ev.Sent, e.Sent)
		r.ecn.acked(e.Info)
	}
	if r.path.acked(e.Size()) {
		r.counters.count(MTUBlackHole)
	}
	r.streams.acked(e)
}

// findSpurious looks for acknowledgments of packets that were considered lost. From then on more reordering is expected
// (RFC 9002 §6.1.1). Skipped numbers are remembered like lost packets.
func (r *recovery) findSpurious(now clock.Time, a *quic.AckInfo, largest uint64) error {
	kept := r.lostRecently[:0]
	oldest := now.Add(-persistentPTOs * r.pto())
	for _, p := range r.lostRecently {
		if !covered(a.Ranges, p.number, p.number) {
			if p.sent > oldest {
				kept = append(kept, p)
			}
			continue
		}
		if p.skipped {
			return errNotSent()
		}
		r.counters.SpuriousPackets++
		r.control.controller.Spurious(p.sent)
		r.reordering = min(max(r.reordering, largest-p.number+1), maxPacketThreshold)
		if e, ok := r.ledger.records.Read(p.number); ok {
			r.streams.acked(e)
		}
	}
	r.lostRecently = kept
	return nil
}

// covered reports whether a range of an ACK frame, which has its highest first, contains a number in [from, to].
func covered(ranges []quic.AckRange, from, to uint64) bool {
	lo, hi := 0, len(ranges)
	for lo < hi { // the first range that does not lie above to
		if m := (lo + hi) / 2; uint64(ranges[m].Smallest) > to {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo < len(ranges) && uint64(ranges[lo].Largest) >= from
}

// detectLost finds lost packets (RFC 9002 §6.1). ranges come from the ACK frame just received, if any.
func (r *recovery) detectLost(now clock.Time, ranges []quic.AckRange) {
	r.lossTime = clock.Never
	delay := r.control.rtt.LossDelay()
	ev := congestion.LossEvent{Now: now, InFlight: int(r.ledger.state.InFlight.Load())}
	var run lossRun
	next, first := r.ledger.next(), r.control.rtt.First
	for n := r.ledger.low; n < min(r.largestAcked, next); n++ {
		e, ok := r.ledger.records.Read(n)
		switch {
		case !ok:
		case !e.Live():
			run.end()
		case n+r.reordering <= r.largestAcked || e.Sent.Add(delay) <= now:
			if e.Sent > first && first != 0 && !e.Uncounted() {
				run.add(e, ranges)
			}
			r.lose(e, &ev)
		default:
			r.lossTime = min(r.lossTime, e.Sent.Add(delay))
			run.end()
		}
	}
	r.ledger.advance(next)
	if ev.Packets > 0 {
		ev.Persistent = run.longest > persistentPTOs*r.pto()
		r.control.controller.Lost(ev)
		r.control.publish()
	}
}

// lossRun finds the longest time between two lost packets with none acknowledged between them (RFC 9002 §7.6.2).
type lossRun struct {
	first, last claim.Entry
	longest     time.Duration
}

func (r *lossRun) add(e claim.Entry, ranges []quic.AckRange) {
	if r.first.Number == 0 || covered(ranges, r.last.Number, e.Number) {
		r.first = e
	}
	r.last = e
	r.longest = max(r.longest, e.Sent.Sub(r.first.Sent))
}

func (r *lossRun) end() { r.first = claim.Entry{} }

// lose takes a packet out of flight, and tells the streams.
func (r *recovery) lose(e claim.Entry, ev *congestion.LossEvent) {
	r.ledger.records.Mark(e, claim.FlagLost)
	r.remember(lostPacket{e.Number, e.Sent, e.Kind() == claim.KindSkipped})
	if e.Kind() == claim.KindSkipped {
		return
	}
	r.counters.LostPackets++
	r.counters.LostBytes += uint64(e.Size())
	if !e.Uncounted() {
		r.ledger.state.InFlight.Add(uint64(-e.Size()))
		ev.Packets++
		ev.Bytes += e.Size()
		ev.Sent = max(ev.Sent, e.Sent)
	}
	r.path.lost(e.Size())
	r.streams.lost(e)
}

func (r *recovery) remember(p lostPacket) {
	if len(r.lostRecently) == maxLostRecently {
		r.lostRecently = r.lostRecently[:copy(r.lostRecently, r.lostRecently[1:])]
	}
	r.lostRecently = append(r.lostRecently, p)
}

// pto returns the probe timeout without backoff.
func (r *recovery) pto() time.Duration { return r.control.rtt.PTO(r.maxAckDelay) }

// deadline returns when the loss detection timer expires (RFC 9002 §6.2.1).
func (r *recovery) deadline() clock.Time {
	switch {
	case len(r.ledger.records) == 0:
	case r.lossTime != clock.Never:
		return r.lossTime
	case r.ledger.outstanding():
		return r.lastSent.Add(r.pto() << min(r.ptoCount, maxPTOCount)).Ceil(tick)
	}
	return clock.Never
}

// expire acts when the loss detection timer expires (RFC 9002 §A.9).
func (r *recovery) expire(now clock.Time) {
	next := r.ledger.next()
	r.ledger.advance(next)
	if r.lossTime <= now {
		r.detectLost(now, nil)
		return
	}
	if !r.ledger.outstanding() {
		return
	}
	r.lastSent = max(r.lastSent, r.ledger.newestSent(next))
	if !r.ledger.sent() {
		r.lastSent = now // the packet that is being sent may be lost from now on
	}
	if now < r.deadline() {
		return
	}
	r.ptoCount++
	r.counters.PTOs++
	r.ecn.timeout()
	r.probes = probePackets
	r.probe(next)
}

// probe schedules the content of the oldest outstanding packets once more, which repairs the loss of the end of a
// burst at once. They stay in flight. Without such content, a PING asks for an acknowledgment (RFC 9002 §6.2.4).
func (r *recovery) probe(next uint64) {
	found := 0
	for n := r.ledger.low; n < next && found < probePackets; n++ {
		if e, ok := r.ledger.records.Read(n); ok && e.Live() && e.Kind() != claim.KindSkipped {
			r.streams.lost(e)
			found++
		}
	}
	r.ping = true
}

// sent notes a packet of the media sender.
func (r *recovery) sent(now clock.Time) {
	r.lastSent = now
	r.probes, r.ping = max(r.probes-1, 0), false
}

// reset forgets the measurements of another path.
func (r *recovery) reset() {
	r.ptoCount, r.reordering, r.lostRecently = 0, packetThreshold, nil
}
