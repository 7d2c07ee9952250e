package media

import (
	"time"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// Datagram is an object with forwarding preference Datagram.
type Datagram struct {
	// Header and Payload together are what the DATAGRAM frame carries. They are kept, and must not be changed.
	Header, Payload []byte
	// Group, Object and Priority (the Publisher Priority) order the datagrams of a subscription.
	Group, Object uint64
	Priority      uint8
	// Received is when the first byte was received; delivery timeouts run from it.
	Received time.Time
	// Timeouts are the delivery timeouts that the publisher wants.
	Timeouts Timeouts
}

// maxDatagrams is how many datagrams of a subscription wait. More than a path carries in a few round trips would be
// late.
const maxDatagrams = 128

// queued is a datagram that waits. It is guarded by the lock of its subscription's sender.
type queued struct {
	unit
	Datagram
	since clock.Time
}

func (q *queued) admission() claim.Admission {
	s := q.sub.sender
	a := claim.Admission{
		Level: uint32(q.level()), Now: q.since, Group: q.Group, Age: q.since.Sub(s.loop.clock.At(q.Received)),
	}
	if s.loop.rule != nil && s.path.route != nil {
		a.Size = len(q.Header) + len(q.Payload) + s.out.overhead(1)
	}
	return a
}

// send sends the datagram, unless it is too late or too large.
func (q *queued) send(now clock.Time, b *udp.Batch) Reason {
	s := q.sub.sender
	n := len(q.Header) + len(q.Payload)
	switch {
	case q.late():
		return q.drop(DatagramLate)
	case s.params.MaxDatagramFrameSize == 0:
		return q.drop(DatagramUnsupported)
	case n+1 > s.out.space(), int64(n+1) > s.params.MaxDatagramFrameSize:
		return q.drop(DatagramTooLarge)
	}
	number, generation, ok := s.ledger.begin(now)
	if !ok {
		return BlockedLedger
	}
	s.ledger.commit(now, number, 0, claim.NewInfo(0, n, s.out.overhead(1), claim.KindDatagram))
	p, header := s.out.begin(b)
	p = append(append(append(p, packet.FrameDatagram), q.Header...), q.Payload...)
	s.ready.served(&q.unit)
	q.remove()
	s.counters.Datagrams++
	if s.loop.measuring.Load() {
		s.shard.leaving = append(s.shard.leaving, s.loop.clock.At(q.Received))
	}
	s.out.finish(now, b, p, header, number, generation)
	return none
}

// late reports whether the smaller of both delivery timeouts (draft §8) has expired.
func (q *queued) late() bool {
	t := q.Timeouts.Shorter(q.sub.timeouts)
	timeout := shorter(t.Object, t.Subgroup)
	return timeout > 0 && q.sub.sender.loop.clock.Wall().Sub(q.Received) > timeout
}

func (q *queued) remove() {
	q.sub.sender.ready.remove(&q.unit)
	q.sub.datagrams--
}

// drop drops the datagram for a reason. It returns none: nothing forbids the next packet.
func (q *queued) drop(r Reason) Reason {
	q.remove()
	q.sub.sender.counters.count(r)
	return none
}
