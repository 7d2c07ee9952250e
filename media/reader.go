package media

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/unlucky"
)

// readPackets is the packets that the socket's reader has opened, see [Sender.Take], and that quic-go has not been told
// of; and what quic-go has to see itself. It is guarded by the sender's lock.
type readPackets struct {
	own        bool   // packets of quic-go's are in flight, which the next ACK may acknowledge
	unseen     bool   // quic-go has not seen a packet of the current key generation
	generation uint64 // of keys
	opener     packet.Opener
	known      int64 // quic-go knows whether it has had lower packet numbers

	news       atomic.Bool // there is something to tell; needs no lock
	numbers    spans
	marks      [4]uint64 // packets by ECN bits
	last       clock.Time
	rtt, delay time.Duration          // the last sample
	err        error                  // the peer has broken QUIC's rules: quic-go closes the connection
	told       quic.ReceivedElsewhere // for reuse, as is ack
	ack        quic.AckInfo
}

// maxReadSpans is how many ranges of packet numbers quic-go keeps, too.
const maxReadSpans = 32

func (s *Sender) readLocked(p *quic.OfferedPacket) bool {
	r := &s.read
	if unlucky.Happens() || s.closed || s.leavesAcks() || len(s.ledger.records) == 0 || !s.onPath(p) {
		return false
	}
	number, frames, ok := r.opener.Open(p.Data, p.Header, r.expected())
	if !ok || !r.isNew(int64(number)) || !s.onlyAck(frames) {
		return false
	}
	received := s.loop.clock.At(p.Received)
	rtt, err := s.ackedLocked(received, &r.ack)
	if err != nil {
		r.err = err
		r.news.Store(true)
		return false // so that quic-go hears of it at once
	}
	if rtt > 0 {
		r.rtt, r.delay = rtt, r.ack.Delay
	}
	s.counters.ReadAcks++
	r.numbers.add(int64(number), int64(number)+1)
	r.marks[p.ECN&3]++
	r.last = max(r.last, received)
	r.news.Store(true)
	return true
}

// leavesAcks reports whether quic-go has to see the next ACK.
func (s *Sender) leavesAcks() bool {
	due := s.keys.due.Load() // with the next packet quic-go updates the keys
	return due || s.read.own || s.read.unseen || s.read.err != nil
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
	rest, err := packet.ParseAck(b, s.params.AckDelayExponent, &s.read.ack)
	if err != nil || len(bytes.TrimLeft(rest, "\x00")) > 0 {
		return false
	}
	return s.read.ack.Ranges[0].Largest < int64(s.ledger.next())
}

// expected returns one more than the largest packet number received.
func (r *readPackets) expected() uint64 {
	if n := len(r.numbers); n > 0 {
		return uint64(max(r.known, r.numbers[n-1].to))
	}
	return uint64(r.known)
}

// isNew reports whether a packet certainly has not come before, and there is room to tell quic-go of it.
func (r *readPackets) isNew(number int64) bool {
	return number >= r.known && !r.numbers.contains(number, number+1) && len(r.numbers) < maxReadSpans
}

// newKeys notes keys of a generation; read is nil if they are for writing. The first packet after a key update is
// quic-go's: it checks the update, and forgets the old keys.
func (r *readPackets) newKeys(generation uint64, read *packet.Key) {
	if read != nil {
		r.opener.Install(generation, read)
	}
	if generation > 0 {
		r.unseen, r.generation = true, generation
	}
}

// received notes the largest number that quic-go has opened, and the key phase of that packet.
func (r *readPackets) received(largest int64, phase int) {
	r.known = max(r.known, largest+1)
	if uint64(phase) == r.generation&1 {
		r.unseen = false
	}
}

// tell returns what quic-go has not been told yet.
func (r *readPackets) tell(c clock.Clock) (*quic.ReceivedElsewhere, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.told = quic.ReceivedElsewhere{
		Packets: r.told.Packets[:0], ECT1: r.marks[1], ECT0: r.marks[2], ECNCE: r.marks[3], // RFC 3168 §5
		Last: c.When(r.last), RTT: r.rtt, AckDelay: r.delay,
	}
	for _, n := range r.numbers {
		r.known = max(r.known, n.to)
		r.told.Packets = append(r.told.Packets, quic.AckRange{Smallest: n.from, Largest: n.to - 1})
	}
	r.news.Store(false)
	r.numbers, r.marks, r.rtt = r.numbers[:0], [4]uint64{}, 0
	return &r.told, nil
}
