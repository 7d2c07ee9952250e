package rtsp

import (
	"maps"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtcp"
	"golang.org/x/time/rate"
)

// Limits of packets that a player gets again.
const (
	maxRepeats  = 2   // of a packet
	repeatRate  = 200 // packets that it may ask for in a second
	repeatBurst = 100
)

// repeats has the packets that a player has got again; stream.mu guards it.
type repeats struct {
	asked *rate.Limiter
	times map[uint64]int // by the numbers of packets in the stream
	first uint64         // that is kept, when times was cleared of older ones
}

func newRepeats() repeats {
	return repeats{asked: rate.NewLimiter(repeatRate, repeatBurst), times: make(map[uint64]int)}
}

// forget forgets packets that are not kept any more, if these are others than before.
func (r *repeats) forget(first uint64) {
	if first == r.first {
		return
	}
	r.first = first
	maps.DeleteFunc(r.times, func(number uint64, _ int) bool { return number < first })
}

// listen takes the player's receiver reports, and its NACKs (RFC 4585 §6.2.1), whether these were offered (see
// wantsNACK) or not.
func (p *player) listen(session *gortsplib.ServerSession) {
	byUDP := session.Transport().Protocol == gortsplib.ProtocolUDP
	for _, d := range session.Medias() {
		session.OnPacketRTCP(d, func(report rtcp.Packet) { p.hear(d, report, byUDP) })
	}
}

// hear takes a packet of the player's about a media that is set up.
func (p *player) hear(d *description.Media, report rtcp.Packet, byUDP bool) {
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	o := p.outlets[p.stream.medias[d]]
	if o == nil || o.shift == nil {
		return
	}
	switch r := report.(type) {
	case *rtcp.TransportLayerNack:
		p.repeat(o, r)
	case *rtcp.ReceiverReport:
		if byUDP { // a packet that a TCP connection has not carried is in a queue, or was left out
			o.heed(r.Reports)
		}
	}
}

// repeat sends packets again, as far as they are kept, and the player may ask for them; stream.mu is held.
func (p *player) repeat(o *outlet, n *rtcp.TransportLayerNack) {
	if !p.live {
		return // the packets that it lacks were left out for it
	}
	p.again.forget(p.stream.oldestLocked())
	for _, pair := range n.Nacks {
		for _, sequence := range pair.PacketList() {
			if !p.again.asked.Allow() {
				p.stream.metrics.nacked(nackLimit) // that there are more does not matter
				return
			}
			p.stream.metrics.nacked(o.repeat(sequence - o.shift.sequence))
		}
	}
}
