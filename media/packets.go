package media

import (
	"encoding/binary"

	"github.com/quic-go/quic-go"
	events "github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// packets builds packets. A packet carries one frame, so that one record describes it, and perhaps an IMMEDIATE_ACK
// frame, which is not sent again. It is guarded by the sender's lock.
type packets struct {
	ledger   *ledger
	keys     *keys
	path     *path
	recovery *recovery
	acks     *ackFrequency
	control  *congestionControl
	counters *Counters
	qlog     qlogwriter.Recorder // of the connection; nil: none
}

// space returns how many bytes the frame of a packet may have. When probes go unanswered, size may be the reason.
func (o *packets) space() int {
	mtu := o.ledger.mtu
	if o.recovery.ptoCount > 1 {
		mtu = min(mtu, baseMTU)
	}
	return mtu - o.overhead(0)
}

// overhead returns how many bytes a packet has besides the data in its frame, whose own header has that length.
func (o *packets) overhead(frameHeader int) int {
	n := 1 + len(o.path.route.destConnID) + packet.NumberLength + frameHeader + packet.TagLength
	if o.probing() {
		n++
	}
	return n
}

// probing reports whether the next packet is a probe whose ACK the peer would delay without IMMEDIATE_ACK.
func (o *packets) probing() bool { return o.acks.understood && o.recovery.probes > 0 }

// begin begins a packet with a header, whose variable bits follow in finish. The frame is to be appended.
func (o *packets) begin(b *udp.Batch) (p []byte, header int) {
	p = append(b.Next(), 0)
	p = append(p, o.path.route.destConnID...)
	p = append(p, 0, 0, 0, 0)
	header = len(p)
	if o.probing() {
		p = append(p, packet.FrameImmediateAck)
	}
	return p, header
}

// finish seals a packet that is recorded, and puts it into the batch.
func (o *packets) finish(now clock.Time, b *udp.Batch, p []byte, header int, number, generation uint64) {
	p[0] = 0x40 | byte(generation&1)<<2 | (packet.NumberLength - 1) // RFC 9000 §17.3.1
	binary.BigEndian.PutUint32(p[header-packet.NumberLength:], uint32(number))
	if o.qlog != nil {
		o.record(number, p[header:], len(p)+packet.TagLength)
	}
	p = o.keys.seal(p, header, number, generation)
	b.Add(o.path.route.Route, len(p))
	o.counters.Packets++ // the forwarder's are not in it
	o.recovery.sent(now)
	o.control.sent(now, len(p))
}

// send sends a packet with a frame that consists of integers, of a stream or of none.
func (o *packets) send(
	now clock.Time, b *udp.Batch, st *Stream, kind uint8, offset int64, frame byte, fields ...uint64,
) Reason {
	number, generation, ok := o.ledger.begin(now)
	if !ok {
		return BlockedLedger
	}
	p, header := o.begin(b)
	p = packet.AppendFrame(p, frame, fields...)
	var stream uint32
	if st != nil {
		stream = st.number
	}
	o.ledger.commit(now, number, offset, claim.NewInfo(stream, 0, len(p)+packet.TagLength, kind))
	o.finish(now, b, p, header, number, generation)
	return none
}

// record writes a packet of some length, with the frames that it has before it is sealed, to the qlog.
func (o *packets) record(number uint64, frames []byte, length int) {
	o.qlog.RecordEvent(events.PacketSent{
		Header: events.PacketHeader{
			PacketType: events.PacketType1RTT, PacketNumber: events.PacketNumber(number),
			DestConnectionID: quic.ConnectionIDFromBytes(o.path.route.destConnID),
		},
		Raw: events.RawInfo{Length: length, PayloadLength: len(frames)}, Frames: framesOf(frames),
	})
}
