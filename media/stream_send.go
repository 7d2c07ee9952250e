package media

import (
	"math"
	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// sendStream sends the next bytes of a stream: lost ones first, because the peer waits for them in order.
func (s *Sender) sendStream(now clock.Time, b *udp.Batch, st *Stream) Reason {
	defer s.ready.served(&st.unit)
	switch {
	case st.repairable() > 0:
		if s.dropLate(st, st.lost[0].from) {
			return none
		}
		return s.retransmit(now, b, st, st.lost[0].from, st.repairable())
	case st.finLost:
		return s.retransmit(now, b, st, st.offset(), 0)
	}
	if s.dropLate(st, st.offset()) {
		return none
	}
	return s.sendNew(now, b, st)
}

func (s *Sender) dropLate(st *Stream, offset int64) bool {
	if !s.tooLate(st, offset) {
		return false
	}
	s.reset(st, Result{Outcome: ObjectTimedOut, Code: codeDeliveryTimeout}, st.sub.errorCode(codeDeliveryTimeout))
	return true
}

// retransmit sends bytes again, as many as fit into a packet, and FIN if they are the stream's last.
func (s *Sender) retransmit(now clock.Time, b *udp.Batch, st *Stream, from, n int64) Reason {
	n = min(n, int64(s.space()-packet.StreamHeaderLength(st.id(), from)))
	number, generation, ok := s.begin(now)
	if !ok {
		return BlockedLedger
	}
	_, closed := st.state.Cursor()
	fin := closed && !st.finAcked && from+n == st.offset()
	st.lost.remove(from, from+n)
	if fin {
		st.finLost = false
	}
	s.counters.Retransmissions++
	s.sendStreamFrame(now, b, st, from, int(n), fin, number, generation)
	s.update(st)
	return none
}

// sendNew sends bytes that nobody has sent before, by the claim protocol (see claim.go).
func (s *Sender) sendNew(now clock.Time, b *udp.Batch, st *Stream) Reason {
	if !st.opened && !s.openStream(st) {
		return none
	}
	from := st.offset()
	end, last, more := st.fresh()
	if !more { // another sender was faster
		s.update(st)
		return none
	}
	all := end + st.state.Shift() - from
	n := min(all, int64(st.state.Limit.Load())-from, int64(s.space()-packet.StreamHeaderLength(st.id(), from)))
	if n <= 0 && all > 0 {
		s.block(st, parkedStream)
		return none
	}
	if n > 0 && s.state.DataAvailable() <= 0 {
		s.block(st, parkedConn)
		return none
	}
	number, generation, ok := s.begin(now)
	if !ok {
		return BlockedLedger
	}
	credit := s.state.TakeData(n, false, 0)
	if credit == 0 && n > 0 {
		s.state.Abort()
		return none // quic-go took it just now; the next look will tell
	}
	fin := last && credit == all
	if !s.claimChunk(st, from, credit, fin) {
		s.state.ReturnData(credit)
		s.state.Abort()
		s.update(st)
		return none
	}
	s.sendStreamFrame(now, b, st, from, int(credit), fin, number, generation)
	s.update(st)
	return none
}

// claimChunk takes n bytes from stream offset from on. The prefix is the opener's alone; nobody else sends before it is through.
func (s *Sender) claimChunk(st *Stream, from, n int64, fin bool) bool {
	prefix := min(int64(len(st.prefix)-st.prefixSent), n)
	if prefix > 0 {
		st.prefixSent += int(prefix)
		from, n = from+prefix, n-prefix
	}
	if st.prefixSent < len(st.prefix) {
		return true
	}
	up := from - st.state.Shift()
	if (n > 0 || fin) && !st.state.Claim(up, up+n, fin) {
		return false
	}
	if st.state.Phase.Load() == claim.StreamOpening {
		st.state.Phase.Store(claim.StreamOpen)
	}
	return true
}

// openStream takes a stream id, if anything can be sent on it.
func (s *Sender) openStream(st *Stream) bool {
	if s.state.DataAvailable() <= 0 {
		s.block(st, parkedConn)
		return false
	}
	id, ok := s.state.TakeStream()
	if !ok || id/4 > math.MaxUint32 {
		s.block(st, parkedID)
		return false
	}
	st.number, st.opened = uint32(id/4), true
	st.state.ID.Store(uint64(id))
	st.state.Limit.Store(uint64(s.params.MaxStreamDataUni))
	s.register(st)
	return true
}

// sendStreamFrame sends a packet with a STREAM frame. The bytes are the sender's to send.
func (s *Sender) sendStreamFrame(now clock.Time, b *udp.Batch, st *Stream, offset int64, n int, fin bool, number, generation uint64) {
	flags := uint8(claim.KindStream)
	if fin {
		flags |= claim.FlagFIN
	}
	overhead := s.overhead(packet.StreamHeaderLength(st.id(), offset))
	s.state.Commit(s.ledger, number, now, offset, claim.NewInfo(st.number, n, overhead, flags))
	p, header := s.open(b)
	p = packet.AppendStreamHeader(p, st.id(), offset, fin)
	at := len(p)
	p = p[:at+n]
	st.read(p[at:], offset)
	s.finishPacket(now, b, p, header, number, generation)
}
