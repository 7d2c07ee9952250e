package rtsp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"golang.org/x/time/rate"

	"sluice/relay"
)

// player is a client that plays a stream. It begins with DESCRIBE or SETUP on a connection, which owns it until a
// session does.
type player struct {
	guest  *relay.Guest
	stream *stream
	path   string
	lib    *gortsplib.ServerStream // has the SSRCs of this player
	ports  clientPorts

	mu      sync.Mutex
	session *gortsplib.ServerSession // nil before SETUP
	conn    *gortsplib.ServerConn    // of the session
	playing context.Context          // done when it pauses or ends; nil: it has never played
	pause   context.CancelFunc

	// Guarded by stream.mu.
	sink    sink
	live    bool      // it gets each packet as it comes
	late    bool      // it waits for the next group
	next    uint64    // number of the packet that it gets next, while it catches up
	got     uint64    // number of the last packet that it has got since PLAY, plus 1
	from    uint64    // number of the first packet after the last one left out for it
	since   time.Time // when it became live or late
	reach   reach     // by the kernel
	again   repeats
	srtp    bool // it gets SRTP
	outlets map[*media]*outlet
}

// sink takes the packets of a player. A session of the library is one, with a queue of its own; it sets the SSRC.
type sink interface {
	WritePacketRTPWithNTP(*description.Media, *rtp.Packet, time.Time) error
	WritePacketRTCP(*description.Media, rtcp.Packet) error
}

// writeQueue is how many packets may wait for a player that takes them slowly by TCP: 1.5 MB.
const writeQueue = 1024

// maxPacket is the largest packet that the library sends: it fits into a datagram on Ethernet.
const maxPacket = 1472

// newPlayer returns a player of a stream. SETUP adds its medias.
func (e *endpoint) newPlayer(s *stream, guest *relay.Guest, path string) (*player, error) {
	p := newPlayer(s, guest)
	p.path, p.lib = path, &gortsplib.ServerStream{Server: e.lib, Desc: s.desc}
	if err := p.lib.Initialize(); err != nil {
		return nil, err
	}
	for d, medias := range p.lib.Stats().Medias {
		for f, stats := range medias.Formats {
			p.outlets[s.medias[d]].reports[f.PayloadType()] = &report{ssrc: stats.LocalSSRC, format: f}
		}
	}
	return p, nil
}

func newPlayer(s *stream, guest *relay.Guest) *player {
	p := &player{guest: guest, stream: s, outlets: make(map[*media]*outlet)}
	p.again = repeats{asked: rate.NewLimiter(repeatRate, repeatBurst), times: make(map[uint64]int)}
	for _, m := range s.medias {
		p.outlets[m] = &outlet{
			player: p, media: m, reports: make(map[uint8]*report), numbers: make(map[uint8]*numbering),
		}
	}
	return p
}

// take makes the player one of a session.
func (p *player) take(session *gortsplib.ServerSession, conn *gortsplib.ServerConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.conn = session, conn
	context.AfterFunc(p.guest.Context(), session.Close)
}

// play begins to send. It returns false if there is nothing to play any more.
func (p *player) play(medias []*description.Media, to sink) bool {
	p.mu.Lock()
	if p.playing != nil && p.playing.Err() == nil {
		p.mu.Unlock()
		return true // PLAY again: a sign of life
	}
	p.playing, p.pause = context.WithCancel(context.Background())
	p.mu.Unlock()
	p.stream.mu.Lock()
	for _, d := range medias { // it may set up more while it pauses
		p.outlets[p.stream.medias[d]].begin()
	}
	p.sink, p.got = to, 0
	p.takeBack()
	for _, o := range p.outlets {
		o.resume()
	}
	p.stream.mu.Unlock()
	return p.stream.join(p)
}

// rest stops sending, until play is called again.
func (p *player) rest() {
	p.mu.Lock()
	if p.pause != nil {
		p.pause()
	}
	p.mu.Unlock()
	p.stream.leave(p)
}

// ctx is done when the player pauses or ends.
func (p *player) ctx() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.playing.Done()
}

// end ends the session when the player has got all packets of its queue. Packets that it lacks after farewell count as
// one drop.
func (p *player) end() {
	p.mu.Lock()
	session, conn := p.session, p.conn
	p.mu.Unlock()
	if session == nil {
		return
	}
	defer session.Close()
	c, ok := conn.NetConn().(*rtspConn) // always: untunneled has made it
	if ok && !c.bidFarewell(p.guest.Context().Done()) && session.Transport().Protocol == gortsplib.ProtocolTCP {
		p.miss(dropEnded)
	}
}

// close gives everything back. The session, if there is one, has ended.
func (p *player) close() {
	p.rest()
	p.lib.Close()
	p.stream.demand.leave(p.guest)
	p.guest.Leave()
}

// send gives a packet to the player's queue; stream.mu is held.
func (p *player) send(next *packet) {
	o := p.outlets[next.media]
	if o.shift == nil {
		return // not set up
	}
	m := p.stream.metrics
	o.declined.packets += uint64(next.gap)
	switch size := next.rtp.MarshalSize(); {
	case !p.fits(next, size):
		p.drop(next, dropTooLarge)
	case o.has(next):
		o.begins(o.shift.apply(next.rtp).SequenceNumber)
		m.forwarded(size)
		p.guest.CountPacket(true)
		p.got = next.number + 1
		o.silent = time.Time{}
		o.tell(next, true)
		if !p.guest.Download(size) {
			p.drop(next, dropQuota)
		}
	case !o.goes(next, size):
		m.declined.Inc()
		p.guest.Drop()
		o.refuse(next)
	case !p.guest.Download(size):
		p.drop(next, dropQuota)
	case o.write(next) != nil:
		p.drop(next, dropQueueFull)
	default:
		m.sent(size)
		p.guest.CountPacket(false)
		p.got = next.number + 1
		o.silent = time.Time{}
		o.charge(size)
		o.tell(next, false)
	}
}

// drop counts a packet that the player does not get, or that exceeds its quota, and leaves out the rest of the group,
// since it cannot be decoded without the lost packet. A stream without groups goes on, and the kernel comes back later.
func (p *player) drop(next *packet, reason string) {
	p.miss(reason)
	if p.stream.lead != nil {
		p.wait()
		return
	}
	p.since, p.from = time.Now(), next.number+1
	p.stopKernel()
}

// miss counts packets that the player does not get.
func (p *player) miss(reason string) {
	p.stream.metrics.dropped(reason)
	p.guest.Drop()
}

// wait has the player wait for the next group; stream.mu is held.
func (p *player) wait() {
	p.live, p.late, p.since = false, true, time.Now()
	p.stopKernel()
}

// begin has the player get each packet as it comes; stream.mu is held.
func (p *player) begin() {
	p.live, p.late, p.since = true, false, time.Now()
}

// isLimited reports whether the player's path carries too little of a media.
func (p *player) isLimited() bool {
	for _, o := range p.outlets {
		if o.limit.Rate() != 0 {
			return true
		}
	}
	return false
}

// passTo notes which packet the player gets next, while it catches up.
func (p *player) passTo(number uint64) {
	for m, o := range p.outlets {
		o.passed = m.forgotten
	}
	s := p.stream
	for i := range s.cache[:number-s.first] {
		p.pass(&s.cache[i])
	}
}

// pass notes that the player is behind a packet, while it catches up.
func (p *player) pass(next *packet) { p.outlets[next.media].passed.addWithGap(next) }

// decline counts a packet that a player which waits for a key frame does not get.
func (p *player) decline(next *packet) { p.outlets[next.media].declined.addWithGap(next) }

// skip counts the packets that the player does not get, while it catches up: those that the cache has forgotten, or all
// so far.
func (p *player) skip(all bool) {
	for m, o := range p.outlets {
		to := m.forgotten
		if all {
			to = m.placed
		}
		o.declined.packets += to.packets - o.passed.packets
		o.declined.bytes += to.bytes - o.passed.bytes
		o.passed = to
	}
}

// protect has the player get SRTP, if it has chosen that. It keeps its numbers when it pauses: its keys stay, too.
func (p *player) protect(profile headers.TransportProfile) {
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	p.srtp = p.srtp || profile == headers.TransportProfileSAVP
}

// fits reports whether a packet can be sent to the player.
func (p *player) fits(next *packet, size int) bool {
	return size <= maxPacket && (!p.srtp || next.pieces() != nil)
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

// describeNACK returns the description of the player's stream, as the library makes it, but with the profile RTP/AVPF
// and NACK (RFC 4585 §4). The library has no place for that.
func (p *player) describeNACK() ([]byte, error) {
	desc := &description.Session{Title: p.stream.desc.Title, FECGroups: p.stream.desc.FECGroups}
	for i, m := range p.stream.desc.Medias {
		desc.Medias = append(desc.Medias, &description.Media{
			Type: m.Type, ID: m.ID, Control: fmt.Sprintf("trackID=%d", i), Profile: headers.TransportProfileAVP,
			Formats: m.Formats,
		})
	}
	b, err := desc.Marshal()
	return offerNACK(b), err
}
