package rtsp

import (
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
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
