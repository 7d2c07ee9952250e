package media

import (
	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"time"

	"github.com/quic-go/quic-go"
)

// Loss recovery (RFC 9002) over the ledger. Packet numbers are shared with quic-go: those that have no record are not looked at.

const (
	packetThreshold    = 3  // RFC 9002 §6.1.1
	maxPacketThreshold = 64 // reordering beyond this is taken for loss
	persistentPTOs     = 3  // kPersistentCongestionThreshold, RFC 9002 §7.6.1
	maxPTOCount        = 6  // the backoff's exponent; quic-go closes idle connections
	probePackets       = 2  // RFC 9002 §6.2.4
	maxLostRecently    = 256
)

// lostPacket is remembered for a while, because it might not have been lost.
type lostPacket struct {
	number uint64
	sent   clock.Time
}

// receiveAck processes an ACK frame: the work is proportional to what it newly acknowledges.
func (s *Sender) receiveAck(a *quic.AckInfo) (sample time.Duration, err error) {
	now := s.loop.clock.At(a.Received)
	next := s.state.NextPN.Load() & claim.NumberMask
	largest := min(uint64(a.Ranges[0].Largest), next-1)
	ev := congestion.AckEvent{Now: now, InFlight: int(s.state.InFlight.Load())}
	var newest claim.Entry
	acked := 0
	for _, r := range a.Ranges {
		if uint64(r.Largest) < s.low {
			break
		}
		for n := min(uint64(r.Largest)+1, next); n > max(uint64(r.Smallest), s.low); n-- {
			e, ok := s.ledger.Read(n - 1)
			if !ok || !e.Live() {
				continue
			}
			if e.Kind() == claim.KindSkipped {
				return 0, &quic.TransportError{ErrorCode: quic.ProtocolViolation, ErrorMessage: "acknowledged a packet that was not sent"}
			}
			if acked++; acked == 1 {
				newest = e
			}
			s.ackPacket(e, &ev)
		}
	}
	s.findSpurious(now, a, largest)
	s.largestAcked = max(s.largestAcked, largest)
	if acked > 0 {
		if newest.Number == largest && !newest.Uncounted() {
			sample = max(now.Sub(newest.Sent), 1)
			s.rtt.Update(now, sample, min(a.Delay, s.params.MaxAckDelay))
		}
		s.ptoCount = 0
		ev.AppLimited = newest.Number >= s.limitedTo
	}
	if ev.Bytes > 0 {
		ev.LatestRTT, ev.SRTT, ev.MinRTT = s.rtt.Latest, s.rtt.Smoothed, s.rtt.Min
		s.control.Acked(ev)
	}
	s.detectLost(now, a.Ranges)
	s.publishWindow()
	if s.wantsService() {
		s.shard.enqueue(s)
	}
	return sample, nil
}

// ackPacket takes a packet out of flight and tells its stream.
func (s *Sender) ackPacket(e claim.Entry, ev *congestion.AckEvent) {
	s.ledger.Mark(e, claim.FlagAcked)
	if !e.Uncounted() {
		s.state.InFlight.Add(uint64(-e.Size()))
		ev.Bytes += e.Size()
		ev.Sent = max(ev.Sent, e.Sent)
	}
	if s.bigLost >= blackHole && e.Size() <= baseMTU && s.mtu > baseMTU {
		s.setMTU(baseMTU)
		s.count(MTUBlackHole)
	}
	s.bigLost = 0
	s.ackFrame(e)
}

func (s *Sender) ackFrame(e claim.Entry) {
	st := s.byNumber[e.Stream()]
	switch {
	case st == nil && e.Kind() == claim.KindStream:
		if o := s.unadoptedStream(e.Stream()); o != nil {
			o.acked.add(e.Offset, e.End(e.Offset))
			o.lost.remove(e.Offset, e.End(e.Offset))
			o.finAcked = o.finAcked || e.Has(claim.FlagFIN)
			o.finLost = o.finLost && !o.finAcked
		}
	case st == nil:
	case e.Kind() == claim.KindStream:
		s.acknowledge(st, e.Offset, e.End(e.Offset), e.Has(claim.FlagFIN))
	case e.Kind() == claim.KindReset && st.resetting:
		s.forget(st)
	}
}

// loseFrame schedules again what a packet carried, if that is still of use.
func (s *Sender) loseFrame(e claim.Entry) {
	st := s.byNumber[e.Stream()]
	switch e.Kind() {
	case claim.KindStream:
		if st != nil {
			s.lose(st, e.Offset, e.End(e.Offset), e.Has(claim.FlagFIN))
		} else if o := s.unadoptedStream(e.Stream()); o != nil {
			o.lost.addMissing(e.Offset, e.End(e.Offset), o.acked)
			o.finLost = o.finLost || e.Has(claim.FlagFIN) && !o.finAcked
		}
	case claim.KindReset:
		if st != nil && st.resetting {
			s.resets = append(s.resets, st)
		}
	case claim.KindBlocked:
		s.loseBlocked(byte(e.Offset), st)
	}
}

// findSpurious looks for acknowledgments of packets that were considered lost (RFC 9002 §6.1.1 allows to become more patient then).
func (s *Sender) findSpurious(now clock.Time, a *quic.AckInfo, largest uint64) {
	kept := s.lostRecently[:0]
	oldest := now.Add(-persistentPTOs * s.rtt.PTO(s.params.MaxAckDelay))
	for _, p := range s.lostRecently {
		if !covered(a.Ranges, p.number, p.number) {
			if p.sent > oldest {
				kept = append(kept, p)
			}
			continue
		}
		s.counters.SpuriousPackets++
		s.control.Spurious(p.sent)
		s.reordering = min(max(s.reordering, largest-p.number+1), maxPacketThreshold)
		if e, ok := s.ledger.Read(p.number); ok {
			s.ackFrame(e)
		}
	}
	s.lostRecently = kept
}

// covered says if a range of an ACK frame, which has its highest first, contains a number in [from, to].
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

// detectLost finds lost packets (RFC 9002 §6.1). ranges are those of the ACK frame just received, if any.
func (s *Sender) detectLost(now clock.Time, ranges []quic.AckRange) {
	s.lossTime = clock.Never
	delay := s.rtt.LossDelay()
	ev := congestion.LossEvent{Now: now, InFlight: int(s.state.InFlight.Load())}
	var run lossRun
	next := s.state.NextPN.Load() & claim.NumberMask
	for n := s.low; n < min(s.largestAcked, next); n++ {
		e, ok := s.ledger.Read(n)
		switch {
		case !ok:
		case !e.Live():
			run.end()
		case n+s.reordering <= s.largestAcked || e.Sent.Add(delay) <= now:
			if e.Sent > s.rtt.First && s.rtt.First != 0 && !e.Uncounted() {
				run.add(e, ranges)
			}
			s.losePacket(e, &ev)
		default:
			s.lossTime = min(s.lossTime, e.Sent.Add(delay))
			run.end()
		}
	}
	s.advance(next)
	if ev.Packets == 0 {
		return
	}
	ev.Persistent = run.longest > persistentPTOs*s.rtt.PTO(s.params.MaxAckDelay)
	s.control.Lost(ev)
	s.publishWindow()
	c, events := s.congestion(), s.cfg.Events
	s.after = append(s.after, func() { events.CongestionEvent(s, c, ev.Persistent) })
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

// losePacket takes a packet out of flight and schedules what it carried.
func (s *Sender) losePacket(e claim.Entry, ev *congestion.LossEvent) {
	s.ledger.Mark(e, claim.FlagLost)
	if e.Kind() == claim.KindSkipped {
		return
	}
	s.counters.LostPackets++
	s.counters.LostBytes += uint64(e.Size())
	if !e.Uncounted() {
		s.state.InFlight.Add(uint64(-e.Size()))
		ev.Packets++
		ev.Bytes += e.Size()
		ev.Sent = max(ev.Sent, e.Sent)
	}
	s.remember(lostPacket{e.Number, e.Sent})
	if s.bigLost++; e.Size() <= baseMTU {
		s.bigLost = 0
	}
	s.loseFrame(e)
}

func (s *Sender) remember(p lostPacket) {
	if len(s.lostRecently) == maxLostRecently {
		s.lostRecently = s.lostRecently[:copy(s.lostRecently, s.lostRecently[1:])]
	}
	s.lostRecently = append(s.lostRecently, p)
}

// blackHole is how many packets larger than baseMTU are lost in a row, with none of that size acknowledged and none of less lost, before
// the path is taken not to carry them any more (RFC 8899 §4.3). It recovers when quic-go reports a path anew.
const blackHole = 12

// advance moves low up to the first packet that is outstanding or whose record may still come.
func (s *Sender) advance(next uint64) {
	s.settled = max(s.settled, min(s.state.Settled(), next))
	low := s.low
	for low < s.settled {
		if e, ok := s.ledger.Read(low); ok && e.Live() {
			break
		}
		low++
	}
	if low != s.low {
		s.low = low
		s.state.LedgerLow.Store(low)
	}
}

// outstanding says if packets are neither acknowledged nor lost.
func (s *Sender) outstanding() bool { return s.low < s.settled || int64(s.state.InFlight.Load()) > 0 }

// lossDeadline is when the loss detection timer is to go off (RFC 9002 §6.2.1).
func (s *Sender) lossDeadline() clock.Time {
	switch {
	case s.lossTime != clock.Never:
		return s.lossTime
	case s.outstanding():
		return s.lastSent.Add(s.rtt.PTO(s.params.MaxAckDelay) << min(s.ptoCount, maxPTOCount))
	}
	return clock.Never
}

// expireLoss does what the loss detection timer does (RFC 9002 §A.9).
func (s *Sender) expireLoss(now clock.Time) {
	next := s.state.NextPN.Load() & claim.NumberMask
	s.advance(next)
	if s.lossTime <= now {
		s.detectLost(now, nil)
		return
	}
	if !s.outstanding() {
		return
	}
	if s.lastSent = max(s.lastSent, s.newestSent(next)); now < s.lossDeadline() {
		return
	}
	s.ptoCount++
	s.counters.PTOs++
	s.probes = probePackets
	s.probe(next)
}

// newestSent returns when the last packet was sent, which may have been another sender's.
func (s *Sender) newestSent(next uint64) clock.Time {
	for n := next; n > s.low; n-- {
		if e, ok := s.ledger.Read(n - 1); ok && e.Kind() != claim.KindSkipped {
			return e.Sent
		}
	}
	return 0
}

// probe schedules the content of the oldest outstanding packets once more, which mends the loss of the last packets of a burst at
// once. They stay in flight. Without any such content a PING asks for an acknowledgment (RFC 9002 §6.2.4).
func (s *Sender) probe(next uint64) {
	found := 0
	for n := s.low; n < next && found < probePackets; n++ {
		if e, ok := s.ledger.Read(n); ok && e.Live() && e.Kind() != claim.KindSkipped {
			s.loseFrame(e)
			found++
		}
	}
	s.ping = true
}
