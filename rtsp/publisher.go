package rtsp

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtp"

	shared "sluice/clock"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// publisher is a session that publishes a stream.
type publisher struct {
	server    *Server
	guest     *relay.Guest
	namespace moqt.Namespace
	stream    *stream
	lift      *lift
	session   *gortsplib.ServerSession
	address   net.IP // of its connection
	ports     clientPorts
	lent      bool // to the kernel
	incoming  incoming
}

// maxMedias and maxFormats are more than any camera has. Each format takes some memory.
const (
	maxMedias  = 16
	maxFormats = 8
)

var (
	errTooManyMedias     = errors.New("too many medias or formats")
	errTooManyPublishers = errors.New("there is no room for another publisher")
	errTooManyBroadcasts = errors.New("there is no room for another broadcast")
	errPublished         = errors.New("somebody else publishes there")
)

func checkDescription(d *description.Session) error {
	if len(d.Medias) > maxMedias {
		return errTooManyMedias
	}
	for _, m := range d.Medias {
		if len(m.Formats) > maxFormats {
			return errTooManyMedias
		}
	}
	return nil
}

// yieldsTo reports whether another publisher may take the place of p: from the same address, and with the same token,
// or if p is lost. Many who are strangers share an address, and anybody may know a path.
func (p *publisher) yieldsTo(other *publisher) bool {
	if !p.address.Equal(other.address) {
		return false
	}
	return p.guest.SharesToken(other.guest) || p.incoming.isLost(p.stream.clock.Now())
}

// source returns what the publisher's memory is charged to.
func (p *publisher) source() netip.Prefix { return transport.SourceOf(&net.TCPAddr{IP: p.address}) }

func addressOf(conn *gortsplib.ServerConn) net.IP {
	return conn.NetConn().RemoteAddr().(*net.TCPAddr).IP // the library needs a TCP address, too
}

// record takes the packets of the session.
func (p *publisher) record() {
	p.incoming.begin(p.stream.clock.Now(), bySRTP(p.session))
	for _, m := range p.session.Medias() {
		for _, f := range m.Formats {
			c, last := clock{session: p.session, media: m, rate: f.ClockRate()}, p.incoming.of(f)
			p.session.OnPacketRTP(m, f, func(pkt *rtp.Packet) {
				if !last.passes(pkt.SequenceNumber) {
					p.server.metrics.ignored.WithLabelValues(ignoredReplay).Inc()
					return
				}
				p.take(m, &c, pkt)
			})
		}
	}
}

// prepare makes the lift of the publisher, and returns the reader that linkUp publishes from.
func (p *publisher) prepare() (in *io.PipeReader) {
	in, out := io.Pipe()
	var u *uplink
	share := p.server.pool.share(p.source())
	if p.server.cfg.Dial != nil {
		u = newUplink(p.stream.desc, out, share)
	}
	p.lift = newLift(p.stream, u, p.server.lifts)
	p.lift.share = share
	return in
}

// linkUp begins to publish the stream as a MoQ broadcast, if it can be one.
func (p *publisher) linkUp(in *io.PipeReader, q *request, remote net.Addr) {
	s := p.server
	if p.lift.uplink != nil {
		s.links.Go(p.runUplink)
		s.links.Go(func() { s.publishMoQ(in, p.lift, q, remote) })
	} else if s.cfg.Dial != nil {
		s.lines.noCodec.Log(s.log, lineInterval, slog.LevelInfo,
			"an RTSP broadcast has no codec that MoQ broadcasts have: only RTSP clients can play it",
			"namespace", q.namespace)
	}
}

// runUplink runs the uplink until the session ends, or a packet cannot be taken apart.
func (p *publisher) runUplink() {
	err := p.lift.uplink.run()
	if err == nil {
		return
	}
	failed := p.server.metrics.ignored.WithLabelValues(ignoredFailed)
	failed.Inc()
	p.lift.close() // requests do not wait for it any more
	p.server.log.Error("an RTSP packet could not be taken apart, so its MoQ broadcast has ended: please report this",
		"namespace", p.namespace, "err", err)
	for a := range p.lift.uplink.queue {
		if a.resume != nil {
			close(a.resume.done)
		} else {
			failed.Inc()
		}
	}
}

func (p *publisher) take(m *description.Media, c *clock, pkt *rtp.Packet) {
	metrics, now := p.server.metrics, time.Now()
	p.incoming.latest.Store(int64(p.stream.clock.At(now)))
	p.stream.await(m)
	p.lift.mu.Lock()
	defer p.lift.mu.Unlock()
	switch {
	case !p.guest.Upload(pkt.MarshalSize()):
		metrics.ignored.WithLabelValues(ignoredQuota).Inc()
		p.stream.pause(m)
	case !p.stream.write(m, pkt, now, c.time(pkt, now)):
		metrics.ignored.WithLabelValues(ignoredSSRC).Inc()
	default:
		metrics.received.Inc()
		p.liftLocked(m, c, pkt)
	}
}

// liftLocked gives a packet to the uplink. The library tells times from the first slice or parameter set of a key frame
// on. Packets before that, of the same frame, wait for it.
func (p *publisher) liftLocked(m *description.Media, c *clock, pkt *rtp.Packet) {
	if p.lift.uplink == nil {
		return
	}
	at, known := p.session.PacketPTS(m, pkt)
	if !known {
		c.keep(pkt)
		return
	}
	for _, e := range c.early {
		if e.Timestamp == pkt.Timestamp {
			p.offerLocked(m, e, at)
		}
	}
	c.early = nil
	p.offerLocked(m, pkt, at)
}

func (p *publisher) offerLocked(m *description.Media, pkt *rtp.Packet, at int64) {
	if !p.lift.offerLocked(m, pkt, at) {
		p.server.metrics.ignored.WithLabelValues(ignoredUplink).Inc()
	}
}

// keep keeps a packet until the first slice of its frame.
func (c *clock) keep(p *rtp.Packet) {
	if len(c.early) > 0 && c.early[0].Timestamp != p.Timestamp || len(c.early) >= maxEarlyPackets {
		c.early = nil
	}
	if memory(p) <= maxEarlyPacket {
		c.early = append(c.early, p)
	}
}

// Limits of the packets of a frame that wait for its first slice: as many as parameter sets need.
const (
	maxEarlyPackets = 64
	maxEarlyPacket  = 4 << 10 // memory of one
)

// close ends the session's stream.
func (p *publisher) close() {
	p.server.mu.Lock()
	if p.server.streams[p.namespace.String()] == p.stream {
		delete(p.server.streams, p.namespace.String())
	}
	p.server.mu.Unlock()
	p.stream.close()
	p.stream.takeBack()
	p.lift.close()
	p.guest.Leave()
}

// undecryptable ends the session if nothing but such packets came for as long as a publisher may be silent. The library
// takes each for a sign of life.
func (p *publisher) undecryptable() {
	silent := p.stream.clock.Now().Sub(shared.Time(p.incoming.latest.Load()))
	if silent < p.server.cfg.ReadTimeout || !p.incoming.failed.CompareAndSwap(false, true) {
		return
	}
	p.server.log.Warn("a publisher by RTSP has to leave", "namespace", p.namespace, "remote", p.address,
		"err", errUndecryptable)
	p.session.Close()
}

// clock tells when the timestamps of a format were sampled: by the publisher's sender reports, and until one has come
// by the arrival of the first packet.
type clock struct {
	session *gortsplib.ServerSession
	media   *description.Media
	rate    int

	begun bool
	last  uint32
	at    time.Time // of last

	early []*rtp.Packet // of a frame whose time is not known, see publisher.lift
}

func (c *clock) time(p *rtp.Packet, now time.Time) time.Time {
	if ntp, ok := c.session.PacketNTP(c.media, p); ok {
		return ntp
	}
	if !c.begun || c.rate <= 0 {
		c.begun, c.last, c.at = true, p.Timestamp, now
		return now
	}
	step := int32(p.Timestamp - c.last) // B-frames go back
	c.last = p.Timestamp
	c.at = c.at.Add(time.Duration(step) * time.Second / time.Duration(c.rate))
	return c.at
}
