package media

import (
	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
	"time"
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
}

// maxDatagrams is how many datagrams of a subscription wait: more than a path takes in a few round trips is stale anyway.
const maxDatagrams = 128

// queued is a datagram that waits.
type queued struct {
	unit
	Datagram
	since clock.Time
}

// SendDatagram queues a datagram. Those too large for the path, too late or too many are dropped and counted, as the draft wants (§11.3):
// there is no error but [ErrClosed].
func (sub *Subscription) SendDatagram(d Datagram) error {
	s := sub.sender
	s.mu.Lock()
	defer s.unlock()
	if sub.closed || s.closed {
		return ErrClosed
	}
	q := &queued{Datagram: d, since: s.loop.clock.Now()}
	q.unit = unit{sub: sub, priority: d.Priority, group: d.Group, minor: d.Object}
	q.datagram = q
	if q.level() > s.threshold {
		s.count(DatagramDropped)
		return nil
	}
	if sub.datagrams == maxDatagrams {
		s.dropOldestDatagram(sub)
	}
	sub.datagrams++
	s.ready.add(&q.unit)
	s.shard.enqueue(s)
	return nil
}

// sendDatagram sends a datagram, unless it is too late or too large.
func (s *Sender) sendDatagram(now clock.Time, b *udp.Batch, u *unit) Reason {
	q := u.datagram
	n := len(q.Header) + len(q.Payload)
	switch {
	case s.datagramLate(q):
		return s.dropDatagram(q, DatagramLate)
	case s.params.MaxDatagramFrameSize == 0:
		return s.dropDatagram(q, DatagramUnsupported)
	case n+1 > s.space(), int64(n+1) > s.params.MaxDatagramFrameSize:
		return s.dropDatagram(q, DatagramTooLarge)
	}
	number, generation, ok := s.begin(now)
	if !ok {
		return BlockedLedger
	}
	s.state.Commit(s.ledger, number, now, 0, claim.NewInfo(0, n, s.overhead(1), claim.KindDatagram))
	p, header := s.open(b)
	p = append(append(append(p, packet.FrameDatagram), q.Header...), q.Payload...)
	s.ready.served(u)
	s.removeDatagram(q)
	s.counters.Datagrams++
	s.finishPacket(now, b, p, header, number, generation)
	return none
}

// datagramLate applies the smaller of both delivery timeouts (draft §8).
func (s *Sender) datagramLate(q *queued) bool {
	timeout := q.sub.objectTimeout
	if t := q.sub.subgroupTimeout; t > 0 && (timeout == 0 || t < timeout) {
		timeout = t
	}
	return timeout > 0 && s.loop.clock.Wall().Sub(q.Received) > timeout
}

func (s *Sender) removeDatagram(q *queued) {
	s.ready.remove(&q.unit)
	q.sub.datagrams--
}

func (s *Sender) dropDatagram(q *queued, r Reason) Reason {
	s.removeDatagram(q)
	s.count(r)
	return none
}

func (s *Sender) dropOldestDatagram(sub *Subscription) {
	var oldest *queued
	for q := range sub.queuedDatagrams() {
		if oldest == nil || q.since < oldest.since {
			oldest = q
		}
	}
	s.dropDatagram(oldest, DatagramQueueFull)
}

// dropDatagrams drops what a subscription that ends has queued.
func (s *Sender) dropDatagrams(sub *Subscription) {
	var all []*queued
	for q := range sub.queuedDatagrams() {
		all = append(all, q)
	}
	for _, q := range all {
		s.dropDatagram(q, DatagramClosed)
	}
}

// queuedDatagrams yields the datagrams that wait, in no order.
func (sub *Subscription) queuedDatagrams() func(yield func(*queued) bool) {
	return func(yield func(*queued) bool) {
		for _, l := range sub.lanes {
			for _, u := range l.units {
				if u.datagram != nil && !yield(u.datagram) {
					return
				}
			}
		}
	}
}
