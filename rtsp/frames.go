package rtsp

import (
	"fmt"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/av1"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/mpeg4audio"
	"github.com/pion/rtp"

	"sluice/player/catalog"
	"sluice/player/loc"
)

// frames takes the frames of one track out of RTP packets, and makes CMAF of them.
type frames struct {
	entry  catalog.TrackEntry
	id     uint32
	rate   int // of the RTP clock
	config []byte
	decode func() decoder             // returns a new one, which a format does always or never; nil: never
	unpack decoder                    // the current one
	loose  bool                       // a decoder may keep parts that are not of the frame which it returns
	held   holding                    // the decoder's
	room   *budget                    // for all decoders of the publisher
	step   int64                      // between several of them
	adapt  func(*frames, []byte) bool // completes entry from a frame before the first; nil: it is complete

	mux *loc.Muxer // nil until entry is complete

	lead  *frames // whose key frames begin groups; nil: there is no video
	late  bool    // it goes on with a key frame, when lead does
	alone bool    // it does not wait for lead any more

	last  int64         // the latest time of a packet, see uplink.time
	shift time.Duration // added to the publisher's times
}

// ticks returns a time in units of the RTP clock, and duration is its inverse.
func (t *frames) ticks(d time.Duration) int64 {
	rate := int64(t.rate)
	return int64(d/time.Second)*rate + int64(d%time.Second)*rate/int64(time.Second)
}

func (t *frames) duration(ticks int64) time.Duration {
	rate := int64(t.rate)
	return time.Duration(ticks/rate)*time.Second + time.Duration(ticks%rate)*time.Second/time.Duration(rate)
}

// newFrames returns nil for a format that MoQ broadcasts do not have.
func newFrames(id uint32, f format.Format, room *budget) *frames {
	t := &frames{id: id, rate: f.ClockRate(), room: room, entry: catalog.TrackEntry{
		Name: fmt.Sprint(id), Timescale: f.ClockRate(), Packaging: catalog.CMAF,
	}}
	switch f := f.(type) {
	case *format.H264:
		t.h264(f)
	case *format.H265:
		t.h265(f)
	case *format.AV1:
		t.av1(f)
	case *format.MPEG4Audio:
		t.aac(f)
	case *format.Opus:
		t.opus(f)
	}
	if t.decode == nil {
		return nil
	}
	t.renew()
	return t
}

// decoder returns the frames that a packet completes.
type decoder func(*rtp.Packet) [][]byte

// decodeBy returns a function that makes decoders with a library, or nil if the library cannot. frames makes frames of
// what a packet completes; there are none if it has an error.
func decodeBy[D interface {
	Decode(*rtp.Packet) ([][]byte, error)
}](create func() (D, error), frames func([][]byte) [][]byte) func() decoder {
	if _, err := create(); err != nil {
		return nil
	}
	return func() decoder {
		d, _ := create()
		return func(p *rtp.Packet) [][]byte {
			parts, err := d.Decode(p)
			if err != nil || len(parts) == 0 {
				return nil // the frame goes on, or is lost
			}
			return frames(parts)
		}
	}
}

// joined returns one frame, as marshal writes it.
func joined(marshal func() ([]byte, error)) [][]byte {
	b, err := marshal()
	if err != nil {
		return nil
	}
	return [][]byte{b}
}

// Limits of the packets from which a decoder makes one frame, and of those that all decoders of a publisher have.
// Decoders have limits of frames, but they also keep fragments without any bytes, each with the buffer in which its
// packet came.
const (
	maxHeldPackets = 8192
	maxHeldBytes   = 8 << 20
	maxHeldInAll   = 16 << 20
)

// holding counts the packets that a decoder may keep something of.
type holding struct{ packets, bytes int }

func (t *frames) renew() {
	t.unpack = t.decode()
	t.release()
}

// release says that the decoder has nothing.
func (t *frames) release() {
	t.room.give(t.held.bytes)
	t.held = holding{}
}

// take returns the frames that a packet completes. A frame beyond the limits is lost.
func (t *frames) take(p *rtp.Packet) [][]byte {
	size := memory(p)
	if t.held.packets >= maxHeldPackets || t.held.bytes+size > maxHeldBytes || !t.room.take(size) {
		t.renew()
		if !t.room.take(size) {
			return nil
		}
	}
	t.held.packets++
	t.held.bytes += size
	list := t.unpack(p)
	switch {
	case len(list) == 0:
	case t.loose:
		t.renew()
	default:
		t.release()
	}
	return list
}

func (t *frames) h264(f *format.H264) {
	t.entry.Codec = "avc1"
	t.decode = decodeBy(f.CreateDecoder, units)
	if len(f.SPS) == 0 || len(f.PPS) == 0 {
		return
	}
	t.config, _ = loc.AVCConfig([][]byte{f.SPS}, [][]byte{f.PPS}) // nil: the frames' parameter sets count
}

func (t *frames) h265(f *format.H265) {
	t.entry.Codec, t.loose = "hvc1", true
	t.decode = decodeBy(f.CreateDecoder, units)
	if len(f.VPS) == 0 || len(f.SPS) == 0 || len(f.PPS) == 0 {
		return
	}
	t.config, _ = loc.HEVCConfig([][]byte{f.VPS}, [][]byte{f.SPS}, [][]byte{f.PPS}, true) // the same
}

// units returns the frame of NAL units, each with its length.
func units(nals [][]byte) [][]byte { return joined(h264.AVCC(nals).Marshal) }

func (t *frames) av1(f *format.AV1) {
	t.loose, t.adapt = true, (*frames).takeSequence
	t.decode = decodeBy(f.CreateDecoder, func(obus [][]byte) [][]byte { return joined(av1.Bitstream(obus).Marshal) })
}

// takeSequence reads the sequence header of a frame, which has the codec's name and configuration.
func (t *frames) takeSequence(frame []byte) bool {
	var obus av1.Bitstream
	if obus.Unmarshal(frame) != nil {
		return false
	}
	for _, o := range obus {
		var h av1.SequenceHeader
		if len(o) == 0 || o[0]>>3&15 != 1 || h.Unmarshal(o) != nil {
			continue
		}
		t.describeAV1(&h)
		return true
	}
	return false
}

// describeAV1 makes the codec's name (AV1 Codec ISO Media File Format Binding §5), from which the configuration
// follows.
func (t *frames) describeAV1(h *av1.SequenceHeader) {
	level, tier := uint8(0), "M"
	if len(h.SeqLevelIdx) > 0 {
		level = h.SeqLevelIdx[0]
	}
	if len(h.SeqTier) > 0 && h.SeqTier[0] {
		tier = "H"
	}
	t.entry.Codec = fmt.Sprintf("av01.%d.%02d%s.%02d", h.SeqProfile, level, tier, h.ColorConfig.BitDepth)
	t.entry.Width, t.entry.Height = h.Width(), h.Height()
}

// maxLengthBits is more than any AAC has: 13 in AAC-hbr (RFC 3640 §3.3.6). The decoder panics at lengths of 64 bits.
const maxLengthBits = 16

func (t *frames) aac(f *format.MPEG4Audio) {
	if f.Config == nil || f.SizeLength < 1 ||
		max(f.SizeLength, f.IndexLength, f.IndexDeltaLength) > maxLengthBits {
		return
	}
	config, err := f.Config.Marshal()
	if err != nil {
		return
	}
	t.entry.Codec, t.entry.InitData, t.entry.SampleRate = "mp4a.40.2", config, f.Config.SampleRate
	t.entry.Channels = fmt.Sprint(max(f.Config.ChannelConfig, 1))
	t.step = mpeg4audio.SamplesPerAccessUnit
	t.decode = decodeBy(f.CreateDecoder, func(list [][]byte) [][]byte { return list })
}

func (t *frames) opus(f *format.Opus) {
	if f.ChannelCount > 2 {
		return
	}
	t.entry.Codec, t.entry.SampleRate, t.entry.Channels = "opus", 48000, fmt.Sprint(f.ChannelCount)
	t.decode = func() decoder { return wholeFrame }
}

// wholeFrame is the decoder of formats with a frame in each packet.
func wholeFrame(p *rtp.Packet) [][]byte {
	if len(p.Payload) == 0 {
		return nil
	}
	return [][]byte{p.Payload}
}

// add returns the chunks that a packet completes, with the time of the first frame in units of the RTP clock. Those
// before the first key frame are left out.
func (t *frames) add(p *rtp.Packet, at int64) (chunks [][]byte) {
	for i, b := range t.take(p) {
		if t.mux == nil && !t.begin(b) {
			continue
		}
		f := loc.Frame{
			Timestamp: uint64(max(at+int64(i)*t.step, 0)), Timed: true, Timescale: uint64(t.rate), Payload: b,
			Config: t.config,
		}
		s, ok := t.mux.Add(f)
		if !ok || t.waits(s) {
			continue
		}
		t.config = nil // later ones are in the frames
		if c, err := t.mux.Chunk(s, 0); err == nil {
			chunks = append(chunks, c)
		}
	}
	return chunks
}

// waits reports whether the broadcast goes on after a frame only: nobody can decode the frames after a gap.
func (t *frames) waits(s loc.Sample) bool {
	if t.late && s.Key() && (t.alone || t.lead == nil || t.lead == t || !t.lead.late) {
		t.late = false
	}
	return t.late
}

// begin makes the muxer, if the frame tells enough.
func (t *frames) begin(frame []byte) bool {
	if t.adapt != nil && !t.adapt(t, frame) {
		return false
	}
	mux, err := loc.NewMuxer(t.id, t.entry)
	if err != nil {
		return false
	}
	t.mux = mux
	return true
}

func (t *frames) ready() bool { return t.mux != nil && t.mux.Ready() }
