package media

import (
	"encoding/binary"
	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// A packet carries one frame, so that one record describes it.

// baseMTU is what every QUIC path carries (RFC 9000 §14).
const baseMTU = 1200

// quantum is how many packets a sender may send before it is the others' turn.
const quantum = 64

// serve sends what may be sent now. It returns if there is more, and otherwise when to look again.
func (s *Sender) serve(now clock.Time, b *udp.Batch) (more bool, alarm clock.Time) {
	s.mu.Lock()
	defer s.unlockAndTell()
	return s.serveLocked(now, b)
}

func (s *Sender) serveLocked(now clock.Time, b *udp.Batch) (more bool, alarm clock.Time) {
	if s.closed {
		return false, clock.Never
	}
	if len(s.ledger) > 0 && s.lossDeadline() <= now {
		s.expireLoss(now)
	}
	s.expireSubgroups(now)
	if s.dataWanted.Load() && s.state.DataAvailable() > 0 {
		s.unpark(parkedConn)
	}
	s.observe(now)
	stopped := s.sendUntilStopped(now, b)
	s.deadline = s.nextAlarm(now, stopped)
	s.shrinkLedger()
	return stopped == again, s.deadline
}

// nextAlarm is when something is to be done without any event.
func (s *Sender) nextAlarm(now clock.Time, stopped Reason) clock.Time {
	alarm := min(s.subgroupDeadline, s.nextLook(now))
	if len(s.ledger) > 0 {
		alarm = min(alarm, s.lossDeadline())
	}
	if stopped == BlockedPacing {
		alarm = min(alarm, s.pacer.Next(s.control.Rate(s.rtt.Smoothed), s.mtu))
	}
	return alarm
}

// wantsService says if an ACK has changed anything that the shard's goroutine must act on.
func (s *Sender) wantsService() bool {
	return s.lossDeadline() < s.deadline || s.pending() && s.state.Fits(s.mtu)
}

// pending says if there is anything to send.
func (s *Sender) pending() bool {
	return !s.ready.empty() || len(s.resets) > 0 || len(s.blocked) > 0 || s.probes > 0
}

// sendUntilStopped sends until nothing is left or something forbids it, and returns that.
func (s *Sender) sendUntilStopped(now clock.Time, b *udp.Batch) Reason {
	if !s.pending() {
		return none
	}
	if r := s.canSend(); r != none {
		s.count(r)
		return r
	}
	rate := s.control.Rate(s.rtt.Smoothed)
	if rate > 0 {
		s.pacer.Refill(now, rate, s.control.Window(), s.mtu)
	}
	for range quantum {
		if r := s.mayContinue(b, rate > 0); r != none {
			return r
		}
		if r := s.sendOne(now, b); r != none {
			return r
		}
		if !s.pending() {
			return none
		}
	}
	return again
}

// mayContinue says what forbids the next packet.
func (s *Sender) mayContinue(b *udp.Batch, paced bool) Reason {
	r := none
	switch {
	case b.Full():
		return again
	case !s.makeRoom():
		r = BlockedLedger
	case s.probes > 0:
	case !s.state.Fits(s.mtu):
		r = BlockedWindow
	case paced && !s.pacer.Ready():
		r = BlockedPacing
	}
	if r == BlockedWindow || r == BlockedPacing {
		s.limitedTo = s.state.NextPN.Load() & claim.NumberMask
	}
	if r != none {
		s.count(r)
	}
	return r
}

// sendOne sends at most one packet.
func (s *Sender) sendOne(now clock.Time, b *udp.Batch) Reason {
	switch {
	case len(s.resets) > 0:
		return s.sendReset(now, b)
	case len(s.blocked) > 0:
		return s.sendBlocked(now, b)
	}
	u := s.ready.first()
	switch {
	case u == nil:
		return s.sendPing(now, b)
	case u.datagram != nil:
		return s.sendDatagram(now, b, u)
	}
	return s.sendStream(now, b, u.stream)
}

// sendPing sends a probe when there is nothing else to send.
func (s *Sender) sendPing(now clock.Time, b *udp.Batch) Reason {
	if !s.ping {
		s.probes = 0
		return none
	}
	s.probes = 1
	return s.sendControl(now, b, nil, claim.KindPing, 0, packet.FramePing)
}

func (s *Sender) sendReset(now clock.Time, b *udp.Batch) Reason {
	st := s.resets[0]
	if !st.resetting { // acknowledged in the meantime
		s.resets = s.resets[1:]
		return none
	}
	r := s.sendControl(now, b, st, claim.KindReset, st.final, packet.FrameResetStream, uint64(st.id()), st.code, uint64(st.final))
	if r == none {
		s.resets = s.resets[1:]
	}
	return r
}

// sendControl sends a packet with a frame that consists of integers.
func (s *Sender) sendControl(now clock.Time, b *udp.Batch, st *Stream, kind uint8, offset int64, frame byte, fields ...uint64) Reason {
	number, generation, ok := s.begin(now)
	if !ok {
		return BlockedLedger
	}
	p, header := s.open(b)
	p = packet.AppendFrame(p, frame, fields...)
	var stream uint32
	if st != nil {
		stream = st.number
	}
	s.state.Commit(s.ledger, number, now, offset, claim.NewInfo(stream, 0, len(p)+packet.TagLength, kind))
	s.finishPacket(now, b, p, header, number, generation)
	return none
}

// open starts a packet: the header, whose variable bits follow in finishPacket.
func (s *Sender) open(b *udp.Batch) (p []byte, header int) {
	p = append(b.Next(), 0)
	p = append(p, s.route.destConnID...)
	p = append(p, 0, 0, 0, 0)
	return p, len(p)
}

// space is how many bytes the frame of a packet may have. When probes go unanswered, size may be why.
func (s *Sender) space() int {
	mtu := s.mtu
	if s.ptoCount > 1 {
		mtu = min(mtu, baseMTU)
	}
	return mtu - 1 - len(s.route.destConnID) - packet.NumberLength - packet.TagLength
}

// overhead is what a packet has besides the data in its frame, whose own header has that length.
func (s *Sender) overhead(frameHeader int) int {
	return 1 + len(s.route.destConnID) + packet.NumberLength + frameHeader + packet.TagLength
}

// finishPacket seals a packet that is recorded, and puts it into the batch.
func (s *Sender) finishPacket(now clock.Time, b *udp.Batch, p []byte, header int, number, generation uint64) {
	p[0] = 0x40 | byte(generation&1)<<2 | (packet.NumberLength - 1) // RFC 9000 §17.3.1
	binary.BigEndian.PutUint32(p[header-packet.NumberLength:], uint32(number))
	p = s.seal.Seal(p, header, number, generation)
	b.Add(s.route.Route, len(p))

	s.lastSent = now
	s.probes, s.ping = max(s.probes-1, 0), false
	s.pacer.Spend(len(p))
	s.state.Packets.Add(1)
	s.counters.Packets++ // its own
	s.state.Bytes.Add(uint64(len(p)))
	s.control.Sent(now, len(p), int(s.state.InFlight.Load()))
	if number-s.keyFirst >= s.keyLimit/2 {
		s.keyDue.Store(true)
	}
}
