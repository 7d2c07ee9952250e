package media

import (
	"github.com/quic-go/quic-go"
	events "github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/quicvarint"

	"sluice/internal/packet"
)

// SetQlog has the sender's packets in the qlog of the connection, unless that is nil: quic-go does not know them. The
// forwarder's are not there.
func (s *Sender) SetQlog(t qlogwriter.Trace) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.release()
	s.out.qlog = t.AddProducer()
}

// framesOf returns the frames of a packet of the sender: a last one, perhaps after IMMEDIATE_ACK.
func framesOf(b []byte) (all []events.Frame) {
	next := func() (v uint64) {
		v, n, _ := quicvarint.Parse(b) // the sender has written it
		b = b[n:]
		return v
	}
	kind := next()
	if kind == packet.FrameImmediateAck && len(b) > 0 {
		all, kind = append(all, events.Frame{Frame: &events.ImmediateAckFrame{}}), next()
	}
	var frame any
	switch kind {
	case packet.FrameDatagram:
		frame = &events.DatagramFrame{Length: int64(len(b))}
	case packet.FramePing:
		frame = &events.PingFrame{}
	case packet.FrameImmediateAck:
		frame = &events.ImmediateAckFrame{}
	case packet.FrameResetStream:
		f := &events.ResetStreamFrame{StreamID: quic.StreamID(next()), ErrorCode: quic.StreamErrorCode(next())}
		setSize(&f.FinalSize, next())
		frame = f
	case packet.FrameDataBlocked:
		f := &events.DataBlockedFrame{}
		setSize(&f.MaximumData, next())
		frame = f
	case packet.FrameStreamDataBlocked:
		f := &events.StreamDataBlockedFrame{StreamID: quic.StreamID(next())}
		setSize(&f.MaximumStreamData, next())
		frame = f
	default:
		if kind&^7 != packet.FrameStream {
			return all // STREAMS_BLOCKED and ACK_FREQUENCY, which are rare
		}
		s := &events.StreamFrame{StreamID: quic.StreamID(next()), Fin: kind&packet.FrameStreamFIN != 0}
		if kind&packet.FrameStreamOffset != 0 {
			s.Offset = int64(next())
		}
		s.Length = int64(len(b))
		frame = s
	}
	return append(all, events.Frame{Frame: frame})
}

// setSize sets a field whose type has no name here.
func setSize[T ~int64](to *T, n uint64) { *to = T(n) }
