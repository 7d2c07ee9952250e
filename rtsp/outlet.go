package rtsp

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/ntp"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"

	"sluice/fastpath"
	"sluice/internal/rtpframe"
)

// outlet is how a player gets one media. stream.mu guards it.
type outlet struct {
	flow
	player  *player
	media   *media
	shift   *shift               // nil: the media was not set up
	reports map[uint8]*report    // by payload type
	numbers map[uint8]*numbering // by payload type, for SRTP
	kernel  *kernelPlayer        // nil: the kernel does not serve it
	tried   bool                 // the kernel was asked to
}

// begin notes that the media was set up, or goes on after a pause.
func (o *outlet) begin() {
	if o.shift == nil {
		o.shift, o.flow = newShift(), flow{}
		return
	}
	o.afterPause = afterPause{waits: true}
}

// resume forgets the decisions before PAUSE: the player may get those frames again. SRTP leaves out the numbers of
// the packets between PAUSE and PLAY.
func (o *outlet) resume() {
	o.own.Forget()
	o.silent = time.Time{}
	for _, n := range o.numbers {
		n.again = true
	}
}

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

// use calls f with the player's flow, as both senders know it.
func (o *outlet) use(f func(*rtpframe.Flow)) {
	if o.kernel != nil {
		o.kernel.Flow(f)
		return
	}
	f(&o.own)
}

// goes reports whether the frame of a packet goes to the player.
func (o *outlet) goes(next *packet, size int) (goes bool) {
	s := o.player.stream
	q := rtpframe.Question{Kind: next.kind, Size: size, Now: s.clock.Now(), Rule: s.policy.rule}
	o.use(func(f *rtpframe.Flow) { goes = f.Judge(next.frame, q) })
	return goes
}

// charge takes a packet that was sent from the player's bucket.
func (o *outlet) charge(size int) {
	if o.limit.Rate() != 0 {
		o.use(func(f *rtpframe.Flow) { f.Charge(size, o.player.stream.clock.Now()) })
	}
}

// refuse leaves a packet out, as the policy wants. A player that has waited for a key frame for too long gets what
// there is, and has no limit for a while: that would stop it again.
func (o *outlet) refuse(next *packet) {
	now := time.Now()
	o.declined.add(next)
	o.player.from = next.number + 1
	switch {
	case o.silent.IsZero():
		o.silent = now
	case now.Sub(o.silent) > patience:
		o.silent = time.Time{}
		limited := o.limit.Rate() != 0
		if limited {
			o.limit.GiveUp(now)
		}
		o.use(func(f *rtpframe.Flow) {
			if limited {
				f.SetRate(0)
			}
			f.Mend()
		})
	}
}

// rtpHeader is the size of a packet's header without extensions.
const rtpHeader = 12

// heed takes a player's report about the media. A media of a codec that is not known has no limit, because nobody could
// tell when its player may go on.
func (o *outlet) heed(list []rtcp.ReceptionReport) {
	r := o.report()
	if r == nil || o.player.stream.policy.keepAll || o.media.codec < rtpframe.H264 {
		return
	}
	for _, one := range list {
		if one.SSRC != r.ssrc || !o.takes(one.LastSequenceNumber) {
			continue
		}
		packets, octets := o.sent(r)
		before := o.limit.Rate()
		rate := o.limit.Heed(rtpframe.Report{
			At: time.Now(), Highest: one.LastSequenceNumber, Lost: int32(one.TotalLost<<8) >> 8, // 24 bits
			Bytes: octets + packets*rtpHeader, Declined: o.declined.packets, DeclinedSize: o.declined.bytes,
		})
		if rate != before {
			o.use(func(f *rtpframe.Flow) { f.SetRate(rate) })
		}
	}
}

// report returns the report of a media with one format.
func (o *outlet) report() *report { return o.reports[o.media.Formats[0].PayloadType()] }

// tell sends a report after a packet, if it is time. A timestamp that is not in the order in which frames are decoded
// tells no time.
func (o *outlet) tell(next *packet, byKernel bool) {
	r := o.reports[next.rtp.PayloadType]
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
	packets, octets := o.sent(r)
	_ = o.player.sink.WritePacketRTCP(o.media.Media, &rtcp.SenderReport{
		SSRC: r.ssrc, NTPTime: ntp.Encode(next.ntp), RTPTime: next.rtp.Timestamp + o.shift.timestamp,
		PacketCount: uint32(packets), OctetCount: uint32(octets),
	}) // the next one may find room in the queue
}

// sent returns how many packets of a report's format were sent, and the bytes of their payloads.
func (o *outlet) sent(r *report) (packets, octets uint64) {
	if o.kernel != nil {
		packets, octets = o.kernel.Sent()
	}
	return r.packets + packets, r.octets + octets
}

// write puts a packet into the player's queue.
func (o *outlet) write(next *packet) error {
	sink, payload := o.player.sink, next.rtp.PayloadType
	if !o.player.srtp {
		out := o.shift.apply(next.rtp)
		o.begins(out.SequenceNumber)
		return sink.WritePacketRTPWithNTP(o.media.Media, out, next.ntp)
	}
	if o.numbers[payload] == nil { // each format has an SSRC
		o.numbers[payload] = new(numbering)
	}
	pieces := next.pieces()
	number, unknown := o.numbers[payload].next(next.rtp.SequenceNumber, len(pieces))
	if unknown {
		o.limit.Restart()
	}
	o.begins(number)
	for i, one := range pieces {
		out := o.shift.apply(one)
		out.SequenceNumber = number + uint16(i)
		if err := sink.WritePacketRTPWithNTP(o.media.Media, out, next.ntp); err != nil {
			return err
		}
	}
	o.reports[payload].addPieces(next.rtp, pieces)
	return nil
}

// repeat sends the packet with the publisher's sequence number again, and returns the result. By SRTP, the same number
// means the same packet only as long as the numbering has not begun anew, and must not be used for another.
func (o *outlet) repeat(sequence uint16) string {
	p := o.player
	if p.srtp {
		return nackSRTP
	}
	next := p.stream.findLocked(o.media, sequence)
	if next == nil || next.number < p.from {
		return nackUnknown
	}
	if p.again.times[next.number] >= maxRepeats {
		return nackOften
	}
	p.again.times[next.number]++
	size := next.rtp.MarshalSize()
	switch {
	case o.limit.Rate() != 0:
		return nackSlowPath
	case !p.guest.Download(size):
		return dropQuota
	case p.sink.WritePacketRTPWithNTP(o.media.Media, o.shift.apply(next.rtp), next.ntp) != nil:
		return dropQueueFull
	}
	p.stream.metrics.sent(size)
	p.guest.CountPacket(false)
	o.tell(next, false)
	return nackSent
}

// handOver has the kernel send the next packets of the media to a player that is live, if it can.
func (o *outlet) handOver(now time.Time) {
	if p := o.player; o.media.kernel == nil || !p.live || now.Sub(p.since) < handOverAfter {
		return
	}
	if !o.tried { // once: it does not help to try again
		o.kernel, o.tried = o.lend(), true
	}
	if k := o.kernel; k != nil && !k.on {
		k.on = true
		k.Forward(true)
	}
}

// lend tells the kernel of the player. It returns nil if the kernel cannot serve it.
func (o *outlet) lend() *kernelPlayer {
	p, m := o.player, o.media
	to, ok := p.reach.medias[m.Media]
	if !ok || o.shift == nil {
		return nil
	}
	from, mtu, err := p.stream.publisher.server.route(p.reach.from.Addr(), to)
	if err != nil {
		return nil
	}
	k := m.kernel.Join(fastpath.RTPPath{
		Local: netip.AddrPortFrom(from, p.reach.from.Port()), Remote: to, MTU: mtu,
		SSRC: o.report().ssrc, Sequence: o.shift.sequence, Timestamp: o.shift.timestamp,
	}, &o.own)
	if k == nil {
		return nil
	}
	return &kernelPlayer{RTPPlayer: k}
}

// has reports whether the kernel has sent a packet to the player.
func (o *outlet) has(next *packet) bool {
	return o.kernel != nil && next.served.Has(o.kernel.RTPPlayer)
}
