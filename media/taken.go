package media

import (
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
)

// refusals are reasons why the forwarder may not take packets: quic-go or the media sender has to see the next ACK at
// once.
type refusals uint8

const (
	refuseOwn     refusals = 1 << iota // it may acknowledge quic-go's packets
	refusePhase                        // quic-go has not seen a packet of the current key generation
	refuseKeyDue                       // with it, quic-go updates the keys
	refuseWaiting                      // data waits for it, or a packet may be lost
	refuseError                        // with it, quic-go closes the connection
)

// takenPackets is what the forwarder may take from the network, and what it has taken that quic-go has not been told.
// It is guarded by the sender's lock.
type takenPackets struct {
	link       *forwarderLink
	refused    refusals
	generation uint64 // of keys

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

// begin allows a forwarder to take packets, as far as nothing refuses.
func (t *takenPackets) begin(queue int, receive func(*claim.TakenPacket)) {
	t.refused = refuseOwn
	t.link.conn.TakeAcks(queue, receive)
}

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

// newKeys notes a key update. Its first packet is quic-go's: it checks the update, and forgets the old keys.
func (t *takenPackets) newKeys(generation uint64) {
	if generation == 0 {
		return
	}
	t.refuse(refusePhase, true)
	t.generation = generation
}

// received notes that quic-go has opened a packet of a key phase.
func (t *takenPackets) received(phase int) {
	if t.refused&refusePhase != 0 && uint64(phase) == t.generation&1 {
		t.refuse(refusePhase, false)
	}
}

// note adds a packet to what quic-go is told.
func (t *takenPackets) note(p *claim.TakenPacket) {
	t.numbers.add(int64(p.Number), int64(p.Number)+1)
	if len(t.numbers) > maxTakenSpans {
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
	b := p.Frames
	for len(b) > 0 && b[0] == packet.FramePadding {
		b = b[1:]
	}
	if _, err := packet.ParseAck(b, s.params.AckDelayExponent, &s.taken.ack); err != nil {
		return &quic.TransportError{ErrorCode: quic.FrameEncodingError, ErrorMessage: err.Error()}
	}
	rtt, err := s.ackedLocked(p.Received, &s.taken.ack)
	if rtt > 0 {
		s.taken.rtt, s.taken.delay = rtt, s.taken.ack.Delay
	}
	return err
}

// OwnInFlight implements [quic.Hooks].
func (s *Sender) OwnInFlight(own bool) {
	if s.loop.forwarder == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.refuse(refuseOwn, own)
}

// ReceivedElsewhere implements [quic.Hooks].
func (s *Sender) ReceivedElsewhere() (*quic.ReceivedElsewhere, error) {
	if s.loop.forwarder == nil {
		return nil, nil
	}
	s.loop.forwarder.HandOver(s.shard.queue)
	if !s.taken.news.Load() {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken.tell(s.loop.clock)
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
