package media

import (
	"bytes"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/internal/packet"
	"sluice/internal/unlucky"
)

// Take implements [quic.Hooks]: it opens a packet that the socket's reader offers, and processes it if it has nothing
// but an ACK frame and PADDING that quic-go need not see. quic-go takes several times as long: it wakes the
// connection's goroutine for each packet. quic-go is told of these packets as of those that the forwarder has taken.
func (s *Sender) Take(p quic.OfferedPacket) bool {
	s.handOver() // what came before, and what this packet may repeat
	s.mu.Lock()
	fw := s.link.conn
	taken := s.takeLocked(&p)
	s.mu.release()
	if taken && fw != nil {
		fw.Acknowledged()
	}
	return taken
}

func (s *Sender) takeLocked(p *quic.OfferedPacket) bool {
	t := &s.taken
	if unlucky.Happens() || s.closed || t.refused&^refuseWaiting != 0 || len(s.ledger.records) == 0 || !s.onPath(p) {
		return false
	}
	number, frames, ok := t.opener.Open(p.Data, p.Header, t.expected())
	if !ok || !t.isNew(int64(number)) || !s.onlyAck(frames) {
		return false
	}
	received := s.loop.clock.At(p.Received)
	if err := s.parsedAckLocked(received); err != nil {
		t.fail(err)
		return false // so that quic-go hears of it at once
	}
	s.counters.ReadAcks++
	t.note(&claim.TakenPacket{Number: number, Received: received, ECN: p.ECN})
	return true
}

// onPath reports whether a packet came on the path in use. quic-go validates other paths.
func (s *Sender) onPath(p *quic.OfferedPacket) bool {
	r := s.path.route
	if r == nil || addrPort(p.Remote) != r.Remote() {
		return false
	}
	return !s.cfg.Client || !p.Local.IsValid() || p.Local.Unmap() == r.local.Addr()
}

// onlyAck reports whether frames are one ACK frame, of packets that were sent, and PADDING. It parses the ACK.
func (s *Sender) onlyAck(frames []byte) bool {
	b := bytes.TrimLeft(frames, "\x00")
	if len(b) == 0 || b[0] != packet.FrameAck && b[0] != packet.FrameAckECN {
		return false
	}
	rest, err := packet.ParseAck(b, s.params.AckDelayExponent, &s.taken.ack)
	if err != nil || len(bytes.TrimLeft(rest, "\x00")) > 0 {
		return false
	}
	return s.taken.ack.Ranges[0].Largest < int64(s.ledger.next())
}

// expected returns one more than the largest packet number received.
func (t *takenPackets) expected() uint64 {
	if n := len(t.numbers); n > 0 {
		return uint64(max(t.known, t.numbers[n-1].to))
	}
	return uint64(t.known)
}

// isNew reports whether a packet certainly has not come before, and there is room to tell quic-go of it.
func (t *takenPackets) isNew(number int64) bool {
	return number >= t.known && !t.numbers.contains(number, number+1) && len(t.numbers) < maxTakenSpans
}
