package media

import (
	"cmp"
	"slices"

	"github.com/quic-go/quic-go"

	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// received is the numbers of the packets that have come, quic-go's included, so that the media sender can acknowledge
// those that the forwarder has taken. It is guarded by the sender's lock.
type received struct {
	numbers spans
	marks   [4]uint64  // packets by ECN bits
	newest  clock.Time // when the packet with the largest number came
	asked   bool       // the peer awaits an ACK of a packet that quic-go has not seen
	sent    int64      // number of the first packet with such an ACK in the current key generation; 0: none
	ranges  []quic.AckRange
}

// maxReceivedSpans is how many ranges of packet numbers quic-go keeps, too. Older ones are not acknowledged.
const maxReceivedSpans = 32

func (r *received) add(number int64, at clock.Time, ecn uint8) {
	if n := len(r.numbers); n == 0 || number >= r.numbers[n-1].to {
		r.newest = at
	}
	r.numbers.addOf(number, maxReceivedSpans)
	r.marks[ecn&3]++
}

// acknowledge sends an ACK frame, if one is awaited, as soon as packets may be sent. No record is kept of its packet:
// the peer does not acknowledge it, and if it is lost, the peer asks again. It does not count as in flight (RFC 9002
// §2).
func (r *received) acknowledge(now clock.Time, b *udp.Batch, out *packets) (sent bool) {
	if !r.asked || out.path.route == nil || !out.keys.allow(out.ledger.next()) {
		return false
	}
	number, generation, ok := out.ledger.state.TakeNumber()
	if !ok {
		return false
	}
	r.asked, r.sent = false, cmp.Or(r.sent, int64(number))
	r.ranges = r.ranges[:0]
	for _, n := range slices.Backward(r.numbers) {
		r.ranges = append(r.ranges, quic.AckRange{Smallest: n.from, Largest: n.to - 1})
	}
	p := out.header(b)
	header := len(p)
	// RFC 3168 §5 has the bits. quic-go advertises the default of ack_delay_exponent.
	p = packet.AppendAck(p, &quic.AckInfo{
		Ranges: r.ranges, Delay: now.Sub(r.newest), ECT1: r.marks[1], ECT0: r.marks[2], ECNCE: r.marks[3],
	}, packet.DefaultAckDelayExponent)
	out.put(b, p, header, number, generation)
	out.counters.SentAcks++
	return true
}
