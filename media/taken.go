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
	all        *received
	refused    refusals
	generation uint64 // of keys

	news       atomic.Bool // there is something to tell; needs no lock
	numbers    spans
	marks      [4]uint64 // packets by ECN bits
	last       clock.Time
	rtt, delay time.Duration          // the last sample
	err        error                  // the peer has broken QUIC's rules
	told       quic.ReceivedElsewhere // for reuse, as is ack
	ack        quic.AckInfo

	maxData, maxStreams int64           // limits that quic-go has not been told
	maxStreamData       map[int64]int64 // of streams that are not the media sender's
	wake                func()          // has quic-go take over what it has not been told; does not change
}

// maxOtherStreams is for how many of quic-go's streams a new limit is kept until quic-go, which is woken for each, has
// been told. The control stream is one, FETCH responses are the others.
const maxOtherStreams = 256

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
	t.generation, t.all.sent = generation, 0
}

// received notes that quic-go has opened a packet of a key phase.
func (t *takenPackets) received(phase int) {
	if t.refused&refusePhase != 0 && uint64(phase) == t.generation&1 {
		t.refuse(refusePhase, false)
	}
}

// note adds a packet to what quic-go is told.
func (t *takenPackets) note(p *claim.TakenPacket) {
	t.numbers.addOf(int64(p.Number), maxReceivedSpans)
	t.marks[p.ECN&3]++
	t.last = max(t.last, p.Received)
	t.news.Store(true)
}

// fail notes that the peer has broken QUIC's rules, and has quic-go close the connection.
func (t *takenPackets) fail(err error) {
	t.err = err
	t.news.Store(true)
	t.refuse(refuseError, true)
	t.wake()
}

// passOn notes a new limit of a stream of quic-go, which may wait for it.
func (t *takenPackets) passOn(id, n int64) error {
	if t.maxStreamData == nil {
		t.maxStreamData = make(map[int64]int64)
	}
	if t.maxStreamData[id] = max(t.maxStreamData[id], n); len(t.maxStreamData) > maxOtherStreams {
		return &quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "too many limits of streams at once"}
	}
	t.wake()
	return nil
}

// tell returns what quic-go has not been told yet.
func (t *takenPackets) tell(c clock.Clock) (*quic.ReceivedElsewhere, error) {
	if t.err != nil {
		return nil, t.err
	}
	t.told = quic.ReceivedElsewhere{
		Packets: t.told.Packets[:0], ECT1: t.marks[1], ECT0: t.marks[2], ECNCE: t.marks[3], // RFC 3168 §5
		Last: c.When(t.last), RTT: t.rtt, AckDelay: t.delay,
		Sent: t.all.sent, MaxData: t.maxData, MaxStreams: t.maxStreams, MaxStreamData: t.maxStreamData,
	}
	for _, n := range t.numbers {
		t.told.Packets = append(t.told.Packets, quic.AckRange{Smallest: n.from, Largest: n.to - 1})
	}
	t.news.Store(false)
	t.numbers, t.marks, t.rtt = t.numbers[:0], [4]uint64{}, 0
	t.maxData, t.maxStreams, t.maxStreamData = 0, 0, nil
	return &t.told, nil
}

// receiveTaken processes a packet that the forwarder has taken.
func (s *Sender) receiveTaken(p *claim.TakenPacket) {
	s.mu.Lock()
	fw := s.link.conn
	if !s.closed && fw != nil {
		s.counters.TakenAcks++
		s.taken.note(p)
		s.received.add(int64(p.Number), p.Received, p.ECN)
		if err := s.receiveFramesLocked(p); err != nil {
			s.taken.fail(err)
		}
		if s.received.asked {
			s.shard.enqueue(s)
		}
	}
	s.mu.release()
	if fw != nil {
		fw.Acknowledged()
	}
}

// receiveFramesLocked processes the frames of a taken packet. All but ACK and PADDING ask for an ACK (RFC 9000 §13.2).
func (s *Sender) receiveFramesLocked(p *claim.TakenPacket) (err error) {
	for b := p.Frames; len(b) > 0 && err == nil; {
		switch b[0] {
		case packet.FramePadding:
			b = b[1:]
		case packet.FramePing:
			b, s.received.asked = b[1:], true
		case packet.FrameAck, packet.FrameAckECN:
			b, err = s.receiveAckLocked(p.Received, b)
		default:
			s.received.asked = true
			b, err = s.receiveLimitLocked(b)
		}
	}
	return err
}

// receiveAckLocked processes the ACK frame that b begins with, and returns what follows.
func (s *Sender) receiveAckLocked(now clock.Time, b []byte) (rest []byte, err error) {
	if rest, err = packet.ParseAck(b, s.params.AckDelayExponent, &s.taken.ack); err != nil {
		return nil, encodingError(err)
	}
	rtt, err := s.ackedLocked(now, &s.taken.ack)
	if rtt > 0 {
		s.taken.rtt, s.taken.delay = rtt, s.taken.ack.Delay
	}
	return rest, err
}

// receiveLimitLocked processes the frame that b begins with, which raises a limit, and returns what follows. quic-go is
// told later, or woken if it may wait for it.
func (s *Sender) receiveLimitLocked(b []byte) (rest []byte, err error) {
	limit, rest, err := packet.ParseLimit(b)
	if err != nil {
		return nil, encodingError(err)
	}
	t := &s.taken
	switch limit.Frame {
	case packet.FrameMaxData:
		s.setMaxDataLocked(limit.Max)
		t.maxData = max(t.maxData, limit.Max)
		t.wakeIf(&s.allocator.noData)
	case packet.FrameMaxStreamsUni:
		s.setMaxStreamsLocked(limit.Max)
		t.maxStreams = max(t.maxStreams, limit.Max)
		t.wakeIf(&s.allocator.noID)
	case packet.FrameMaxStreamData:
		if !s.setMaxStreamDataLocked(limit.ID, limit.Max) {
			err = t.passOn(limit.ID, limit.Max)
		}
	}
	return rest, err
}

// wakeIf wakes quic-go if it waits.
func (t *takenPackets) wakeIf(waits *atomic.Bool) {
	if waits.Swap(false) {
		t.wake()
	}
}

func encodingError(err error) error {
	return &quic.TransportError{ErrorCode: quic.FrameEncodingError, ErrorMessage: err.Error()}
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
