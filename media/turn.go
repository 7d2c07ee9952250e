package media

import (
	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// quantum is how many packets a sender may send before it is the others' turn.
const quantum = 64

// turn is the work of a sender when its shard serves it: alarms that have expired, then packets, as far as the path
// takes them. It is guarded by the sender's lock.
type turn struct {
	sender   *Sender
	deadline clock.Time // of the alarm
}

// serve serves the sender for the shard's goroutine. grown is a stream whose log has grown or ended, or nil. It returns
// whether there is more to send, and otherwise when to look again.
func (s *Sender) serve(now clock.Time, b *udp.Batch, grown *Stream) (more bool, alarm clock.Time) {
	s.mu.Lock()
	defer s.mu.releaseAndTell()
	if grown != nil {
		grown.update()
	}
	return s.turn.take(now, b)
}

// take is one turn.
func (t *turn) take(now clock.Time, b *udp.Batch) (more bool, alarm clock.Time) {
	s := t.sender
	if s.closed {
		return false, clock.Never
	}
	if s.recovery.deadline() <= now {
		s.recovery.expire(now)
	}
	s.streams.expire(now)
	s.credit.releaseReturned()
	s.ledger.skip(now)
	s.observer.observe(now)
	stopped := t.send(now, b)
	if stopped == none {
		s.control.idle()
	}
	s.control.goFirst(stopped == BlockedPacing)
	s.keys.sealer.Protect()
	if t.deadline = t.alarm(now, stopped); t.deadline == clock.Never {
		s.ledger.shrink()
	}
	return stopped == again, t.deadline
}

// alarm returns when something is to be done without any event.
func (t *turn) alarm(now clock.Time, stopped Reason) clock.Time {
	s := t.sender
	at := min(s.streams.deadline, s.observer.next(now), s.recovery.deadline())
	if stopped == BlockedPacing {
		at = min(at, s.control.nextPacket(s.ledger.mtu))
	}
	return at
}

// wanted reports whether an ACK has changed anything that makes a turn necessary.
func (t *turn) wanted() bool {
	s := t.sender
	return s.recovery.deadline() < t.deadline || s.ledger.skipDue() || t.pending() && s.state.Fits(s.ledger.mtu)
}

// pending reports whether there is anything to send.
func (t *turn) pending() bool {
	s := t.sender
	return !s.ready.empty() || len(s.streams.resets) > 0 || len(s.credit.frames) > 0 || s.acks.due() ||
		s.recovery.probes > 0
}

// send sends until nothing is left or something forbids it, and returns that.
func (t *turn) send(now clock.Time, b *udp.Batch) Reason {
	s := t.sender
	if !t.pending() {
		return none
	}
	if r := t.blocked(); r != none {
		s.counters.count(r)
		return r
	}
	s.control.pace(now, s.ledger.mtu)
	for range quantum {
		if r := t.blockedNow(now, b); r != none {
			return r
		}
		if r := t.sendOne(now, b); r != none {
			return r
		}
		if !t.pending() {
			return none
		}
	}
	return again
}

// blocked returns what forbids to send at all.
func (t *turn) blocked() Reason {
	s := t.sender
	switch {
	case s.path.route == nil:
		return BlockedPath
	case !s.keys.allow(s.ledger.next()):
		return BlockedKey
	case !s.ledger.makeRoom():
		return BlockedLedger
	}
	return none
}

// blockedNow returns what forbids the next packet.
func (t *turn) blockedNow(now clock.Time, b *udp.Batch) Reason {
	s := t.sender
	r := none
	switch {
	case b.Full():
		return again
	case !s.ledger.makeRoom():
		r = BlockedLedger
	case s.recovery.probes > 0:
	default:
		r = s.control.blocked(now, s.ledger.mtu)
	}
	if r != none {
		s.counters.count(r)
	}
	return r
}

// sendOne sends at most one packet.
func (t *turn) sendOne(now clock.Time, b *udp.Batch) Reason {
	s := t.sender
	switch {
	case len(s.streams.resets) > 0:
		return t.sendReset(now, b)
	case len(s.credit.frames) > 0:
		return t.sendBlocked(now, b)
	case s.acks.due():
		r := s.acks.send(now, b, &s.out)
		if r == none {
			s.shard.asked.Add(1)
		}
		return r
	}
	u := s.ready.first()
	switch {
	case u == nil:
		return t.sendPing(now, b)
	case u.datagram != nil:
		return u.datagram.send(now, b)
	}
	return u.stream.send(now, b)
}

// sendPing sends a probe when there is nothing else to send.
func (t *turn) sendPing(now clock.Time, b *udp.Batch) Reason {
	s := t.sender
	if !s.recovery.ping {
		s.recovery.probes = 0
		return none
	}
	s.recovery.probes = 1
	return s.out.send(now, b, nil, claim.KindPing, 0, packet.FramePing)
}

func (t *turn) sendReset(now clock.Time, b *udp.Batch) Reason {
	s := t.sender
	st := s.streams.resets[0]
	r := none
	if st.resetting { // not acknowledged in the meantime
		r = s.out.send(now, b, st, claim.KindReset, st.final,
			packet.FrameResetStream, uint64(st.id()), st.code, uint64(st.final))
	}
	if r == none {
		s.streams.resets = s.streams.resets[1:]
	}
	return r
}

func (t *turn) sendBlocked(now clock.Time, b *udp.Batch) Reason {
	s := t.sender
	f := s.credit.frames[0]
	r := none
	switch {
	case f.obsolete():
	case f.stream != nil:
		r = s.out.send(now, b, f.stream, claim.KindBlocked, int64(f.frame),
			f.frame, uint64(f.stream.id()), uint64(f.limit))
	default:
		r = s.out.send(now, b, nil, claim.KindBlocked, int64(f.frame), f.frame, uint64(f.limit))
	}
	if r == none {
		s.credit.frames = s.credit.frames[1:]
	}
	return r
}
