package media

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
)

// refusals are reasons why quic-go, or the media sender at once, has to see the next ACK.
type refusals uint8

const (
	refuseOwn     refusals = 1 << iota // it may acknowledge quic-go's packets
	refusePhase                        // quic-go has not seen a packet of the current key generation
	refuseKeyDue                       // with it, quic-go updates the keys
	refuseWaiting                      // data waits for it, or a packet may be lost: only the forwarder may not take it
	refuseError                        // with it, quic-go closes the connection
)

// takenPackets is what may be received without quic-go, and what was received so that quic-go has not been told. The
// forwarder takes packets from the network, and the socket's reader opens them, see [Sender.Take]. It is guarded by the
// sender's lock.
type takenPackets struct {
	link       *forwarderLink
	refused    refusals
	generation uint64 // of keys
	opener     packet.Opener
	known      int64 // quic-go knows whether it has had lower packet numbers

	news       atomic.Bool // there is something to tell; needs no lock
	numbers    spans
	marks      [4]uint64 // packets by ECN bits
	last       clock.Time
	rtt, delay time.Duration // the last sample
	err        error
	told       quic.ReceivedElsewhere // for reuse, as is ack
	ack        quic.AckInfo
}

// maxTakenSpans is how many ranges of packet numbers quic-go keeps, too. It does not acknowledge older ones.
const maxTakenSpans = 32

// refuse notes whether there is a reason to refuse, and tells the forwarder if that changes anything.
func (t *takenPackets) refuse(reason refusals, on bool) {
	could := t.refused == 0
	if t.refused &^= reason; on {
		t.refused |= reason
	}
	if can := t.refused == 0; can != could && t.link.conn != nil {
		t.link.conn.SetTaking(can, t.generation)
	}
}

// newKeys notes keys of a generation; read is nil if they are for writing. The first packet after a key update is
// quic-go's: it checks the update, and forgets the old keys.
func (t *takenPackets) newKeys(generation uint64, read *packet.Key) {
	if read != nil {
		t.opener.Install(generation, read)
	}
	if generation == 0 {
		return
	}
	t.refuse(refusePhase, true)
	t.generation = generation
}

// received notes the largest number that quic-go has opened, and the key phase of that packet.
func (t *takenPackets) received(largest int64, phase int) {
	t.known = max(t.known, largest+1)
	if t.refused&refusePhase != 0 && uint64(phase) == t.generation&1 {
		t.refuse(refusePhase, false)
	}
}

// note adds a packet to what quic-go is told.
func (t *takenPackets) note(p *claim.TakenPacket) {
	t.numbers.add(int64(p.Number), int64(p.Number)+1)
	if len(t.numbers) > maxTakenSpans {
		t.known = max(t.known, t.numbers[0].to)
		t.numbers = append(t.numbers[:0], t.numbers[1:]...)
	}
	t.marks[p.ECN&3]++
	t.last = max(t.last, p.Received)
	t.news.Store(true)
}

// fail notes that the peer has broken QUIC's rules. It is heard of with the next packet.
func (t *takenPackets) fail(err error) {
	t.err = err
	t.news.Store(true)
	t.refuse(refuseError, true)
}

// tell returns what quic-go has not been told yet.
func (t *takenPackets) tell(c clock.Clock) (*quic.ReceivedElsewhere, error) {
	if t.err != nil {
		return nil, t.err
	}
	t.told = quic.ReceivedElsewhere{
		Packets: t.told.Packets[:0], ECT1: t.marks[1], ECT0: t.marks[2], ECNCE: t.marks[3], // RFC 3168 §5
		Last: c.When(t.last), RTT: t.rtt, AckDelay: t.delay,
	}
	for _, n := range t.numbers {
		t.known = max(t.known, n.to)
		t.told.Packets = append(t.told.Packets, quic.AckRange{Smallest: n.from, Largest: n.to - 1})
	}
	t.news.Store(false)
	t.numbers, t.marks, t.rtt = t.numbers[:0], [4]uint64{}, 0
	return &t.told, nil
}

// receiveTaken processes a packet that the forwarder has taken.
func (s *Sender) receiveTaken(p *claim.TakenPacket) {
	s.mu.Lock()
	fw := s.link.conn
	if !s.closed && fw != nil {
		s.counters.TakenAcks++
		s.taken.note(p)
		if err := s.receiveAckLocked(p); err != nil {
			s.taken.fail(err)
		}
	}
	s.mu.release()
	if fw != nil {
		fw.Acknowledged()
	}
}

// receiveAckLocked processes the ACK frame of a taken packet.
func (s *Sender) receiveAckLocked(p *claim.TakenPacket) error {
	b := bytes.TrimLeft(p.Frames, "\x00") // PADDING
	if _, err := packet.ParseAck(b, s.params.AckDelayExponent, &s.taken.ack); err != nil {
		return &quic.TransportError{ErrorCode: quic.FrameEncodingError, ErrorMessage: err.Error()}
	}
	return s.parsedAckLocked(p.Received)
}

// parsedAckLocked processes the ACK frame that was parsed last.
func (s *Sender) parsedAckLocked(received clock.Time) error {
	rtt, err := s.ackedLocked(received, &s.taken.ack)
	if rtt > 0 {
		s.taken.rtt, s.taken.delay = rtt, s.taken.ack.Delay
	}
	return err
}

// OwnInFlight implements [quic.Hooks].
func (s *Sender) OwnInFlight(own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.refuse(refuseOwn, own)
}

// ReceivedElsewhere implements [quic.Hooks].
func (s *Sender) ReceivedElsewhere() (*quic.ReceivedElsewhere, error) {
	s.handOver()
	if !s.taken.news.Load() {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken.tell(s.loop.clock)
}

// handOver processes the packets that the forwarder has taken.
func (s *Sender) handOver() {
	if fw := s.loop.forwarder; fw != nil {
		fw.HandOver(s.shard.queue)
	}
}

// HandOver processes the packets that the forwarder has taken from connections of a socket, by its index. It is called
// by whoever is awake anyway, before sleeping.
func (l *Loop) HandOver(socket int) {
	if l.forwarder == nil {
		return
	}
	for _, sh := range l.shardsOf[socket] {
		l.forwarder.HandOver(sh.queue)
	}
}
