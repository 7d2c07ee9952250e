package media

import (
	"time"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

const (
	// acksPerWindow is how many ACKs the packets of a window bring at least, so that a burst does not fill the window
	// before the first ACK opens it again.
	acksPerWindow = 4
	// acksPerFullWindow is that number while the window or pacing holds data back: HyStart++ needs eight samples in a
	// round trip (RFC 9406 §4.3).
	acksPerFullWindow = 8
	// maxUnacked is how many packets need no ACK at most. The ledger has room for many more.
	maxUnacked = 128
	// longestAckDelay is the default of max_ack_delay (RFC 9000 §18.2). We ask for no longer delay.
	longestAckDelay = 25 * time.Millisecond
	// reorderingThreshold asks for an immediate ACK of packets that come after a gap, as without ACK_FREQUENCY. The
	// packet threshold would do for packets in the middle of a burst, but one of the last packets is found lost by time
	// alone, which begins with the ACK of a later one.
	reorderingThreshold = 1
)

// ackFrequency asks a peer that understands ACK_FREQUENCY for fewer ACKs than one for every other packet
// (draft-ietf-quic-ack-frequency-12). It is guarded by the sender's lock.
type ackFrequency struct {
	recovery *recovery
	control  *congestionControl
	ledger   *ledger
	counters *Counters

	understood bool
	delay      time.Duration // that we ask for
	unacked    uint64        // packets that need no ACK, as we have asked last
	sequence   uint64        // of the last frame; 0: none was sent
	waiting    bool          // the last frame is neither acknowledged nor lost
	lost       bool          // the last frame
}

// begin takes the peer's parameters. Before it is asked for anything, every other packet needs no ACK.
func (f *ackFrequency) begin(p quic.PeerParameters) {
	f.recovery.maxAckDelay = p.MaxAckDelay
	f.unacked = 1
	if f.understood = p.MinAckDelay != nil; f.understood {
		f.delay = max(min(p.MaxAckDelay, longestAckDelay), *p.MinAckDelay)
	}
}

// wanted returns how many packets should need no ACK.
func (f *ackFrequency) wanted() uint64 {
	packets, acks := f.control.state.Window.Load()/uint64(f.ledger.mtu), uint64(acksPerWindow)
	if f.control.limited(f.recovery.largestAcked) {
		acks = acksPerFullWindow
	}
	return min(max(packets/acks, 1), maxUnacked)
}

// due reports whether the peer is to be asked: for more ACKs, or for half as many or fewer, but not before it has
// answered the last frame, nor before it has acknowledged any media.
func (f *ackFrequency) due() bool {
	if !f.understood || f.waiting || f.control.rtt.Smoothed == 0 {
		return false
	}
	wanted := f.wanted()
	return f.lost || wanted < f.unacked || wanted >= 2*f.unacked
}

// send sends an ACK_FREQUENCY frame.
func (f *ackFrequency) send(now clock.Time, b *udp.Batch, out *packets) Reason {
	wanted, next := f.wanted(), f.sequence+1
	r := out.send(now, b, nil, claim.KindAckFrequency, int64(next),
		packet.FrameAckFrequency, next, wanted, uint64(f.delay.Microseconds()), reorderingThreshold)
	if r == none {
		f.unacked, f.sequence, f.waiting, f.lost = wanted, next, true, false
		f.counters.AckRequests++
	}
	return r
}

// markAcked notes that the peer delays ACKs as a frame has asked. Until then it may delay them for longer.
func (f *ackFrequency) markAcked(sequence uint64) {
	f.recovery.maxAckDelay = f.delay
	if sequence == f.sequence {
		f.waiting, f.lost = false, false
	}
}

// markLost notes the loss of a frame: another one is sent, if it was the last.
func (f *ackFrequency) markLost(sequence uint64) {
	if sequence == f.sequence {
		f.waiting, f.lost = false, true
	}
}
