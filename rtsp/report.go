package rtsp

import (
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/gortsplib/v5/pkg/ntp"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

// report has the figures of sender reports to a player about a format (RFC 3550 §6.4.1): how much it was sent, by user
// space and by the kernel, and which timestamp belongs to which time. The library's own reports would not count the
// kernel's packets.
type report struct {
	ssrc            uint32
	format          format.Format
	packets, octets uint64    // sent by user space
	last            time.Time // when the last report was sent
}

// reportInterval is as long as the library's.
const reportInterval = 10 * time.Second

// newReports returns the reports of all medias, by payload type.
func (p *player) newReports() map[*media]map[uint8]*report {
	all := make(map[*media]map[uint8]*report)
	for d, medias := range p.lib.Stats().Medias {
		formats := make(map[uint8]*report)
		for f, s := range medias.Formats {
			formats[f.PayloadType()] = &report{ssrc: s.LocalSSRC, format: f}
		}
		all[p.stream.medias[d]] = formats
	}
	return all
}

// tell sends a report after a packet, if it is time; stream.mu is held. A timestamp that is not in the order in which
// frames are decoded tells no time.
func (p *player) tell(next *packet, byKernel bool) {
	r := p.reports[next.media][next.rtp.PayloadType]
	if r == nil {
		return
	}
	if !byKernel {
		r.packets++
		r.octets += uint64(len(next.rtp.Payload))
	}
	now := time.Now()
	if now.Sub(r.last) < reportInterval || !r.format.PTSEqualsDTS(next.rtp) {
		return
	}
	r.last = now
	packets, octets := p.sent(next.media, r)
	_ = p.sink.WritePacketRTCP(next.media.Media, &rtcp.SenderReport{
		SSRC: r.ssrc, NTPTime: ntp.Encode(next.ntp), RTPTime: next.rtp.Timestamp + p.shifts[next.media].timestamp,
		PacketCount: uint32(packets), OctetCount: uint32(octets),
	}) // the next one may find room in the queue
}

// sent returns how many packets of a report's format were sent, and the bytes of their payloads; stream.mu is held.
func (p *player) sent(m *media, r *report) (packets, octets uint64) {
	if k := p.kernel[m]; k != nil {
		packets, octets = k.Sent()
	}
	return r.packets + packets, r.octets + octets
}

// addPieces counts the pieces of a packet, which counts as one elsewhere.
func (r *report) addPieces(whole *rtp.Packet, pieces []*rtp.Packet) {
	if r == nil {
		return
	}
	r.packets += uint64(len(pieces) - 1)
	r.octets -= uint64(len(whole.Payload))
	for _, one := range pieces {
		r.octets += uint64(len(one.Payload))
	}
}
