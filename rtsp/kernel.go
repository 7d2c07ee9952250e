package rtsp

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
	"github.com/pion/rtp"

	"sluice/fastpath"
	"sluice/internal/rtpframe"
)

// The kernel sends packets by UDP from publishers to players, and says for each packet which players have it. User
// space does the rest: see package fastpath. The kernel sends to players that are live, and only medias with one
// format.

// plainUDP reports whether the RTP of a session goes by UDP, without encryption.
func plainUDP(s *gortsplib.ServerSession) bool {
	t := s.Transport()
	return t != nil && t.Protocol == gortsplib.ProtocolUDP && t.Profile == headers.TransportProfileAVP
}

// clientPorts are the UDP ports for RTP of a session's medias, in the order of SETUP.
type clientPorts []uint16

// add notes the port of the media that is set up now. One that is refused after that is followed by another one with
// the same number.
func (c *clientPorts) add(setup *gortsplib.ServerHandlerOnSetupCtx) {
	n := min(len(setup.Session.Medias()), len(*c))
	port := uint16(0)
	if asked := askedPorts(setup); len(asked) > 0 {
		port = uint16(asked[0].port)
	}
	*c = append((*c)[:n], port)
}

// of returns the address for RTP of each media of a session that the kernel can serve.
func (c clientPorts) of(s *gortsplib.ServerSession, client net.IP) map[*description.Media]netip.AddrPort {
	ip, ok := netip.AddrFromSlice(client)
	if !ok || !plainUDP(s) {
		return nil
	}
	all := make(map[*description.Media]netip.AddrPort)
	for i, d := range s.Medias() {
		if i < len(c) && c[i] != 0 && len(d.Formats) == 1 {
			all[d] = netip.AddrPortFrom(ip.Unmap(), c[i])
		}
	}
	return all
}

// rtpAddress returns the address of the port for RTP; the IP address may be unspecified.
func (e *endpoint) rtpAddress() (a netip.AddrPort) {
	host, text, err := net.SplitHostPort(e.lib.UDPRTPAddress)
	if err != nil {
		return a
	}
	port, _ := strconv.ParseUint(text, 10, 16)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		ip = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(port))
}

// lend has the kernel serve the medias of a publisher that come to a port of ours by UDP. It does not wait for that.
func (p *publisher) lend(port uint16, c *gortsplib.ServerHandlerOnRecordCtx) {
	fast := p.server.cfg.FastPath
	if fast == nil || p.lent {
		return
	}
	p.lent = true
	local := c.Conn.NetConn().LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	for d, from := range p.ports.of(c.Session, p.address) {
		source := fastpath.RTPSource{
			Local: netip.AddrPortFrom(local, port), Remote: from, PayloadType: d.Formats[0].PayloadType(),
			Codec: codecOf(d),
		}
		go func() {
			k, err := fast.NewRTPMedia(source)
			if err != nil {
				p.server.log.Info("user space sends the packets of an RTSP publisher", "namespace", p.namespace,
					"reason", err)
				return
			}
			p.stream.lend(d, k)
		}()
	}
}

// forwarder sends packets of a media beside the stream. It is [fastpath.RTPMedia], but in tests.
type forwarder interface {
	Await()
	Take(fastpath.RTPPacket) fastpath.RTPServed
	Frames(func(*rtpframe.Frames)) bool
	Pause(bool)
	Join(fastpath.RTPPath, *rtpframe.Flow) *fastpath.RTPPlayer
	Close()
}

// lend has the kernel send the packets of a media.
func (s *stream) lend(d *description.Media, k forwarder) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		m := s.medias[d]
		k.Frames(func(f *rtpframe.Frames) { f.Follow(&m.frames) }) // the kernel has none before it knows the SSRC
		m.kernel = k
	}
	s.mu.Unlock()
	if closed {
		k.Close()
	}
}

// takeBack has the kernel forget the medias of a stream that is closed.
func (s *stream) takeBack() {
	var closing sync.WaitGroup
	for _, m := range s.medias {
		if m.kernel != nil {
			closing.Go(m.kernel.Close)
		}
	}
	closing.Wait()
}

// pause has the kernel send nothing of a media until its next packet.
func (s *stream) pause(d *description.Media) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.medias[d].pause()
}

func (m *media) pause() {
	if m.kernel != nil && !m.paused {
		m.paused = true
		m.kernel.Pause(true)
	}
}

// rest has the kernel send nothing of all medias, until rest is called with false and the next packet has come.
func (s *stream) rest(resting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.medias {
		if m.resting = resting; resting {
			m.pause()
		}
	}
}

// await waits for copies of a media's packets that the kernel's workers still make. It may take a while, so nobody who
// calls it holds a lock.
func (s *stream) await(d *description.Media) {
	s.mu.Lock()
	k := s.medias[d].kernel
	s.mu.Unlock()
	if k != nil {
		k.Await()
	}
}

// served returns to which players the kernel has sent a packet.
func (m *media) served(p *rtp.Packet) fastpath.RTPServed {
	if m.kernel == nil {
		return fastpath.RTPServed{}
	}
	if m.paused && !m.resting {
		m.paused = false
		m.kernel.Pause(false)
	}
	return m.kernel.Take(fastpath.RTPPacket{SSRC: p.SSRC, Sequence: p.SequenceNumber, Timestamp: p.Timestamp})
}

// reachBy says how the kernel reaches the player, which is about to play.
func (p *player) reachBy(r reach) {
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	p.reach = r
}

// reach is how the kernel reaches a player.
type reach struct {
	from   netip.AddrPort // our address for RTP; the IP address may be unspecified
	medias map[*description.Media]netip.AddrPort
}

// kernelPlayer is a player as the kernel knows it.
type kernelPlayer struct {
	*fastpath.RTPPlayer
	on bool // the kernel sends packets
}

// handOverAfter is how long user space alone sends to a player that has become live. By then the packets in the
// player's queue have been sent, so packets of the kernel do not overtake them.
const handOverAfter = 500 * time.Millisecond

// stopKernel leaves the player to user space; stream.mu is held.
func (p *player) stopKernel() {
	for _, o := range p.outlets {
		if k := o.kernel; k != nil && k.on {
			k.on = false
			k.Forward(false)
		}
	}
}

// takeBack has the kernel forget the player; stream.mu is held.
func (p *player) takeBack() {
	for _, o := range p.outlets {
		if k := o.kernel; k != nil {
			k.Leave()
			packets, octets := k.Sent()
			r := o.report()
			r.packets, r.octets = r.packets+packets, r.octets+octets
		}
		o.kernel, o.tried = nil, false
	}
}
