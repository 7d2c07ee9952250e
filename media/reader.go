package media

import (
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/clock"
	"sluice/internal/packet"
)

// readPackets is the packets that the socket's reader has opened, see [Hooks.Take], and that quic-go has not been told
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
