package rtsp

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"

	"sluice/relay"
)

// player is a client that plays a stream. It begins with DESCRIBE or SETUP on a connection, which owns it until a
// session does.
type player struct {
	guest  *relay.Guest
	stream *stream
	path   string
	lib    *gortsplib.ServerStream // has the SSRCs of this player
	shifts map[*media]*shift
	ports  clientPorts

	mu      sync.Mutex
	session *gortsplib.ServerSession // nil before SETUP
	playing context.Context          // done when it pauses or ends; nil: it does not play
	pause   context.CancelFunc

	// Guarded by stream.mu.
	sink    sink
	live    bool                     // it gets each packet as it comes
	late    bool                     // it waits for the next group
	next    uint64                   // number of the packet that it gets next, while it catches up
	got     uint64                   // number of the last packet that it has got since PLAY, plus 1
	from    uint64                   // number of the first packet after the last one left out for it
	since   time.Time                // when it became live or late
	reach   reach                    // by the kernel
	kernel  map[*media]*kernelPlayer // nil: the kernel cannot serve it
	reports map[*media]map[uint8]*report
	again   repeats
	flows   map[*media]*flow
	srtp    map[*media]map[uint8]*numbering // by payload type; nil: it does not use SRTP
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

// shift is by how much the fields of a media's packets differ from the publisher's. Both begin at random (RFC 3550
// §5.1), so a player learns nothing of others.
type shift struct {
	sequence  uint16
	timestamp uint32
}

func newShift() *shift { return &shift{uint16(rand.Uint32()), rand.Uint32()} }

// apply returns the packet as the player gets it. It shares the payload.
func (s shift) apply(p *rtp.Packet) *rtp.Packet {
	out := *p
	out.SequenceNumber += s.sequence
	out.Timestamp += s.timestamp
	return &out
}

// newPlayer returns a player of a stream. SETUP adds its medias.
func (e *endpoint) newPlayer(s *stream, guest *relay.Guest, path string) (*player, error) {
	p := &player{guest: guest, stream: s, path: path, lib: &gortsplib.ServerStream{Server: e.lib, Desc: s.desc}}
	if err := p.lib.Initialize(); err != nil {
		return nil, err
	}
	p.reports = p.newReports()
	return p, nil
}

// take makes the player one of a session.
func (p *player) take(session *gortsplib.ServerSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = session
	context.AfterFunc(p.guest.Context(), session.Close)
}

// play begins to send. It returns false if there is nothing to play any more.
func (p *player) play(medias []*description.Media, to sink) bool {
	p.mu.Lock()
	if p.playing != nil {
		p.mu.Unlock()
		return true // PLAY again: a sign of life
	}
	p.playing, p.pause = context.WithCancel(context.Background())
	p.mu.Unlock()
	p.stream.mu.Lock()
	if p.shifts == nil {
		p.shifts, p.again, p.flows = make(map[*media]*shift), newRepeats(), make(map[*media]*flow)
	}
	for _, d := range medias {
		if m := p.stream.medias[d]; p.shifts[m] == nil { // it may set up more while it pauses
			p.shifts[m], p.flows[m] = newShift(), new(flow)
		} else {
			p.flows[m].afterPause = afterPause{waits: true}
		}
	}
	p.sink, p.got = to, 0
	p.takeBack()
	for _, f := range p.flows {
		f.own.Forget() // it may get frames again
		f.silent = time.Time{}
	}
	p.resumeNumbers()
	p.stream.mu.Unlock()
	return p.stream.join(p)
}

// rest stops sending, until play is called again.
func (p *player) rest() {
	p.mu.Lock()
	if p.playing != nil {
		p.pause()
		p.playing = nil
	}
	p.mu.Unlock()
	p.stream.leave(p)
}

// ctx is done when the player pauses or ends.
func (p *player) ctx() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.playing == nil {
		return closedChannel
	}
	return p.playing.Done()
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// end ends the session. It does not wait for that.
func (p *player) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		p.session.Close()
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
	if p.shifts[next.media] == nil {
		return // not set up
	}
	m, f := p.stream.metrics, p.flows[next.media]
	f.declined.packets += uint64(next.gap)
	switch size := next.rtp.MarshalSize(); {
	case !p.fits(next, size):
		p.drop(next, dropTooLarge)
	case p.has(next):
		f.begins(p.shifts[next.media].apply(next.rtp).SequenceNumber)
		m.forwarded(size)
		p.guest.CountPacket(true)
		p.got = next.number + 1
		f.silent = time.Time{}
		p.tell(next, true)
		if !p.guest.Download(size) {
			p.drop(next, dropQuota)
		}
	case !p.goes(next, size):
		m.declined.Inc()
		p.guest.Drop()
		p.refuse(next)
	case !p.guest.Download(size):
		p.drop(next, dropQuota)
	case p.write(next) != nil:
		p.drop(next, dropQueueFull)
	default:
		m.sent(size)
		p.guest.CountPacket(false)
		p.got = next.number + 1
		f.silent = time.Time{}
		p.charge(next.media, size)
		p.tell(next, false)
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
