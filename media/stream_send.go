package media

import (
	"math"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// send sends the next bytes of a stream: lost ones first, because the peer waits for them in order.
func (st *Stream) send(now clock.Time, b *udp.Batch) Reason {
	defer st.sender.ready.served(&st.unit)
	switch {
	case st.repairable(st.lost) > 0:
		if st.endIfLate(st.lost[0].from) {
			return none
		}
		return st.resend(now, b, st.lost[0].from, st.repairable(st.lost))
	case st.finLost:
		return st.resend(now, b, st.offset(), 0)
	}
	if st.endIfLate(st.offset()) {
		return none
	}
	return st.sendNew(now, b)
}

// resend sends bytes again, as many as fit into a packet, and FIN if they are the stream's last.
func (st *Stream) resend(now clock.Time, b *udp.Batch, from, n int64) Reason {
	s := st.sender
	n = min(n, int64(s.out.space()-packet.StreamHeaderLength(st.id(), from)))
	number, generation, ok := s.ledger.begin(now)
	if !ok {
		return BlockedLedger
	}
	_, closed := st.state.Cursor()
	fin := closed && !st.finAcked && from+n == st.offset()
	st.markResent(from, from+n, fin)
	s.counters.Retransmissions++
	st.sendFrame(now, b, from, int(n), fin, number, generation)
	st.update()
	return none
}

// sendNew sends bytes for the first time, by the claim protocol: see package claim.
func (st *Stream) sendNew(now clock.Time, b *udp.Batch) Reason {
	s := st.sender
	if !st.opened && !st.open() {
		return none
	}
	from := st.offset()
	end, last, more := st.fresh()
	if !more { // the forwarder was faster
		st.update()
		return none
	}
	all := end + st.shift() - from
	if to := st.decisionAt(); to > from {
		all, last = min(all, to-from), last && to-from >= all
	}
	n := min(all, int64(st.state.Limit.Load())-from, int64(s.out.space()-packet.StreamHeaderLength(st.id(), from)))
	if n <= 0 && all > 0 {
		s.credit.block(st, parkedStream)
		return none
	}
	if n > 0 && s.state.DataAvailable() <= 0 {
		s.credit.block(st, parkedConn)
		return none
	}
	number, generation, ok := s.ledger.begin(now)
	if !ok {
		return BlockedLedger
	}
	data := s.state.TakeData(n, false, 0)
	if data == 0 && n > 0 {
		s.state.Abort()
		return none // another sender or quic-go was faster; the next attempt blocks
	}
	fin := last && data == all
	if !st.claim(from, data, fin) {
		s.state.ReturnData(data)
		s.state.Abort()
		st.update()
		return none
	}
	st.sender.shard.noteDelay(st, from)
	st.sendFrame(now, b, from, int(data), fin, number, generation)
	st.update()
	return none
}

// open takes a stream id, if anything can be sent on it.
func (st *Stream) open() bool {
	s := st.sender
	if s.state.DataAvailable() <= 0 {
		s.credit.block(st, parkedConn)
		return false
	}
	id, ok := s.state.TakeStream()
	if !ok || id/4 > math.MaxUint32 {
		s.credit.block(st, parkedID)
		return false
	}
	st.number, st.opened = uint32(id/4), true
	st.state.ID.Store(uint64(id))
	st.state.Limit.Store(uint64(s.params.MaxStreamDataUni))
	s.streams.register(st)
	return true
}

// sendFrame sends a packet with a STREAM frame. Its bytes are claimed, or lost ones.
func (st *Stream) sendFrame(now clock.Time, b *udp.Batch, offset int64, n int, fin bool, number, generation uint64) {
	s := st.sender
	flags := uint8(claim.KindStream)
	if fin {
		flags |= claim.FlagFIN
	}
	overhead := s.out.overhead(packet.StreamHeaderLength(st.id(), offset))
	s.ledger.commit(now, number, offset, claim.NewInfo(st.number, n, overhead, flags))
	p, header := s.out.begin(b)
	p = packet.AppendStreamHeader(p, st.id(), offset, fin)
	at := len(p)
	p = p[:at+n]
	st.read(p[at:], offset)
	s.out.finish(now, b, p, header, number, generation)
}
