package rtsp

import (
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"

	"sluice/claim"
	"sluice/internal/rtpframe"
)

// policy decides which frames players with too little bandwidth do not get.
type policy struct {
	rule    claim.Rule // an operator's; nil: the built-in one
	keepAll bool       // players have no limits
}

func (s *Server) policy() policy { return policy{s.cfg.Rule, s.cfg.KeepAll} }

// videoCodec returns how to tell which frames of a video depend on others, if that is known for its format.
func videoCodec(f format.Format) rtpframe.Codec {
	switch f.(type) {
	case *format.H264:
		return rtpframe.H264
	case *format.H265:
		return rtpframe.H265
	case *format.AV1:
		return rtpframe.AV1
	}
	return rtpframe.Unknown
}

// codecOf returns how to read the payloads of a media.
func codecOf(d *description.Media) rtpframe.Codec {
	switch {
	case d.Type == description.MediaTypeAudio:
		return rtpframe.Audio
	case d.Type == description.MediaTypeVideo && len(d.Formats) == 1:
		return videoCodec(d.Formats[0])
	}
	return rtpframe.Unknown
}

// flow decides which packets of a media a player gets; stream.mu guards it.
type flow struct {
	own        rtpframe.Flow // while the kernel does not serve the player
	limit      rtpframe.Limit
	declined   tally     // packets left out, or missing from the publisher: the player sees gaps
	passed     tally     // while the player catches up: the media's packets before the player's next one
	silent     time.Time // since when each packet was left out by the policy; 0: the last one was not
	afterPause afterPause
}

// afterPause tells a player's reports after PAUSE and PLAY from its earlier ones. The numbers between, of packets that
// came while it paused, do not tell of losses.
type afterPause struct {
	waits bool   // no packet has been sent since PLAY
	asks  bool   // no report was taken since then
	first uint16 // number of the first packet since then
}

// begins notes the number of a packet that is sent to the player.
func (f *flow) begins(number uint16) {
	if f.afterPause.waits {
		f.afterPause = afterPause{asks: true, first: number}
		f.limit.Restart()
	}
}

// takes reports whether a report may tell of packets since PLAY.
func (f *flow) takes(highest uint32) bool {
	if r := &f.afterPause; r.waits || r.asks && int16(uint16(highest)-r.first) < 0 {
		return false
	}
	f.afterPause.asks = false
	return true
}

// tally counts packets and their bytes.
type tally struct{ packets, bytes uint64 }

func (t *tally) add(p *packet) {
	t.packets++
	t.bytes += uint64(p.rtp.MarshalSize())
}

// addWithGap counts the packets before it, too, that have never come.
func (t *tally) addWithGap(p *packet) {
	t.packets += uint64(p.gap)
	t.add(p)
}

// number returns the number of a packet's frame, which both senders know.
func (m *media) number(p *rtp.Packet, restarts bool) (n uint32) {
	number := func(f *rtpframe.Frames) {
		if restarts {
			f.Restart()
		}
		n = f.Number(p.Timestamp, p.SequenceNumber)
	}
	if m.kernel != nil && m.kernel.Frames(func(f *rtpframe.Frames) {
		number(f)
		f.Raise(m.temporal)
		m.frames.Follow(f)
	}) {
		return n
	}
	number(&m.frames)
	return n
}

// use calls f with the player's flow, as both senders know it.
func (p *player) use(m *media, f func(*rtpframe.Flow)) {
	if k := p.kernel[m]; k != nil {
		k.Flow(f)
		return
	}
	f(&p.flows[m].own)
}

// goes reports whether the frame of a packet goes to the player.
func (p *player) goes(next *packet, size int) (goes bool) {
	s := p.stream
	q := rtpframe.Question{Kind: next.kind, Size: size, Now: s.clock.Now(), Rule: s.policy.rule}
	p.use(next.media, func(f *rtpframe.Flow) { goes = f.Judge(next.frame, q) })
	return goes
}

// charge takes a packet that was sent from the player's bucket.
func (p *player) charge(m *media, size int) {
	if p.flows[m].limit.Rate() != 0 {
		p.use(m, func(f *rtpframe.Flow) { f.Charge(size, p.stream.clock.Now()) })
	}
}

// refuse leaves a packet out, as the policy wants. A player that has waited for a key frame for too long gets what
// there is, and has no limit for a while: that would stop it again.
func (p *player) refuse(next *packet) {
	f, now := p.flows[next.media], time.Now()
	f.declined.add(next)
	p.from = next.number + 1
	switch {
	case f.silent.IsZero():
		f.silent = now
	case now.Sub(f.silent) > patience:
		f.silent = time.Time{}
		limited := f.limit.Rate() != 0
		if limited {
			f.limit.GiveUp(now)
		}
		p.use(next.media, func(f *rtpframe.Flow) {
			if limited {
				f.SetRate(0)
			}
			f.Mend()
		})
	}
}

// isLimited reports whether the player's path carries too little of a media.
func (p *player) isLimited() bool {
	for _, f := range p.flows {
		if f.limit.Rate() != 0 {
			return true
		}
	}
	return false
}

// decline counts a packet that a player which waits for a key frame does not get.
func (p *player) decline(next *packet) {
	if f := p.flows[next.media]; f != nil {
		f.declined.addWithGap(next)
	}
}

// passTo notes which packet the player gets next, while it catches up.
func (p *player) passTo(number uint64) {
	for m, f := range p.flows {
		f.passed = m.forgotten
	}
	s := p.stream
	for i := range s.cache[:number-s.first] {
		p.pass(&s.cache[i])
	}
}

func (p *player) pass(next *packet) {
	if f := p.flows[next.media]; f != nil {
		f.passed.addWithGap(next)
	}
}

// skip counts the packets that the player does not get, while it catches up: those that the cache has forgotten, or all
// so far.
func (p *player) skip(all bool) {
	for m, f := range p.flows {
		to := m.forgotten
		if all {
			to = m.placed
		}
		f.declined.packets += to.packets - f.passed.packets
		f.declined.bytes += to.bytes - f.passed.bytes
		f.passed = to
	}
}

// rtpHeader is the size of a packet's header without extensions.
const rtpHeader = 12

// heed takes a player's report about a media. A media of a codec that is not known has no limit, because nobody could
// tell when its player may go on.
func (p *player) heed(d *description.Media, list []rtcp.ReceptionReport) {
	s := p.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.medias[d]
	f := p.flows[m]
	if f == nil || s.policy.keepAll || m.codec < rtpframe.H264 {
		return
	}
	r := p.reportOf(m)
	if r == nil {
		return
	}
	for _, one := range list {
		if one.SSRC != r.ssrc || !f.takes(one.LastSequenceNumber) {
			continue
		}
		packets, octets := p.sent(m, r)
		before := f.limit.Rate()
		rate := f.limit.Heed(rtpframe.Report{
			At: time.Now(), Highest: one.LastSequenceNumber, Lost: int32(one.TotalLost<<8) >> 8, // 24 bits
			Bytes: octets + packets*rtpHeader, Declined: f.declined.packets, DeclinedSize: f.declined.bytes,
		})
		if rate != before {
			p.use(m, func(f *rtpframe.Flow) { f.SetRate(rate) })
		}
	}
}
