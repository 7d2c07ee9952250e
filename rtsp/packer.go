package rtsp

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/av1"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/mpeg4audio"
	"github.com/pion/rtp"

	"sluice/player/cmaf"
	"sluice/player/loc"
)

// packer makes RTP packets of the frames of one track.
type packer struct {
	media *description.Media
	track cmaf.TrackInfo
	rate  uint64 // of the RTP clock
	ssrc  uint32
	pack  func(frame []byte) ([]*rtp.Packet, error)
}

// Payload types of the two kinds of media.
const (
	videoPayload = 96
	audioPayload = 97
)

// newPacker returns the packer of a track, or nil for a codec that RTSP players do not get.
func newPacker(t cmaf.TrackInfo) (*packer, error) {
	p := &packer{track: t, ssrc: rand.Uint32(), media: &description.Media{Type: description.MediaType(t.Kind)}}
	var err error
	switch codec, _, _ := strings.Cut(t.Codec, "."); codec {
	case "avc1", "avc3":
		err = p.h264()
	case "hvc1", "hev1":
		err = p.h265()
	case "av01":
		err = p.av1()
	case "mp4a":
		err = p.aac()
	case "opus":
		err = p.opus()
	}
	if p.pack == nil || err != nil {
		return nil, err
	}
	return p, nil
}

func (p *packer) use(f format.Format, pack func([]byte) ([]*rtp.Packet, error)) {
	p.media.Formats, p.rate, p.pack = []format.Format{f}, uint64(f.ClockRate()), pack
}

// errLength is the error of video whose NAL units do not have lengths of four bytes, as all other code expects.
var errLength = errors.New("the lengths of NAL units must have 4 bytes")

func (p *packer) h264() error {
	if len(p.track.Config) < 5 || p.track.Config[4]&3 != 3 {
		return errLength
	}
	f := &format.H264{PayloadTyp: videoPayload, PacketizationMode: 1}
	if sets := unitsOf(loc.ParameterSets(p.track.Codec, p.track.Config)); len(sets) == 2 {
		f.SPS, f.PPS = sets[0], sets[1] // of more, each is in a frame as well
	}
	e, err := f.CreateEncoder()
	p.use(f, packUnits(e))
	return err
}

func (p *packer) h265() error {
	if len(p.track.Config) < 22 || p.track.Config[21]&3 != 3 {
		return errLength
	}
	f := &format.H265{PayloadTyp: videoPayload}
	if sets := unitsOf(loc.ParameterSets(p.track.Codec, p.track.Config)); len(sets) == 3 {
		f.VPS, f.SPS, f.PPS = sets[0], sets[1], sets[2]
	}
	e, err := f.CreateEncoder()
	p.use(f, packUnits(e))
	return err
}

// unitsOf returns NAL units that have their lengths before them, or nil.
func unitsOf(b []byte) [][]byte {
	var units h264.AVCC
	if units.Unmarshal(b) != nil {
		return nil
	}
	return units
}

func packUnits(e interface {
	Encode([][]byte) ([]*rtp.Packet, error)
}) func([]byte) ([]*rtp.Packet, error) {
	return func(frame []byte) ([]*rtp.Packet, error) {
		if units := unitsOf(frame); units != nil {
			return e.Encode(units)
		}
		return nil, errors.New("a frame is not made of NAL units")
	}
}

// maxOBUs is how many OBUs a frame of AV1 may have. The library takes far more memory for each than an OBU has bytes.
const maxOBUs = 256

// temporalDelimiter is the type of an OBU that RTP packets do not have (RTP Payload Format For AV1 §5).
const temporalDelimiter = 2

func (p *packer) av1() error {
	f := &format.AV1{PayloadTyp: videoPayload}
	e, err := f.CreateEncoder()
	p.use(f, func(frame []byte) ([]*rtp.Packet, error) {
		var all, obus av1.Bitstream
		if n := loc.CountOBUs(frame); n > maxOBUs {
			return nil, fmt.Errorf("a frame with %d OBUs: must be at most %d", n, maxOBUs)
		}
		if err := all.Unmarshal(frame); err != nil {
			return nil, err
		}
		for _, o := range all {
			if o[0]>>3&15 != temporalDelimiter {
				obus = append(obus, o)
			}
		}
		if len(obus) == 0 {
			return nil, nil
		}
		return e.Encode(obus)
	})
	return err
}

func (p *packer) aac() error {
	var config mpeg4audio.AudioSpecificConfig
	if err := config.Unmarshal(p.track.Config); err != nil {
		return fmt.Errorf("configuration of AAC: %w", err)
	}
	f := &format.MPEG4Audio{
		PayloadTyp: audioPayload, Config: &config, SizeLength: 13, IndexLength: 3, IndexDeltaLength: 3,
	}
	e, err := f.CreateEncoder()
	p.use(f, func(frame []byte) ([]*rtp.Packet, error) { return e.Encode([][]byte{frame}) })
	return err
}

// maxOpus is the longest packet of Opus that fits: RTP has no fragments of them (RFC 7587 §4.2). A frame has at most
// 1,275 bytes.
const maxOpus = 1450

func (p *packer) opus() error {
	if p.track.Channels > 2 {
		return fmt.Errorf("%d channels of Opus: must be 1 or 2", p.track.Channels)
	}
	f := &format.Opus{PayloadTyp: audioPayload, ChannelCount: max(p.track.Channels, 1)}
	e, err := f.CreateEncoder()
	p.use(f, func(frame []byte) ([]*rtp.Packet, error) {
		if len(frame) > maxOpus {
			return nil, fmt.Errorf("an Opus packet of %d bytes: must be at most %d", len(frame), maxOpus)
		}
		one, err := e.Encode(frame)
		return []*rtp.Packet{one}, err
	})
	return err
}

// packets returns the packets of a frame. They share no memory with it, so that the cache of a stream keeps no more
// than it counts.
func (p *packer) packets(s cmaf.Sample) ([]*rtp.Packet, error) {
	if len(s.Data) == 0 {
		return nil, nil
	}
	list, err := p.pack(s.Data)
	for _, one := range list {
		one.SSRC, one.Timestamp, one.Payload = p.ssrc, p.timestamp(s), bytes.Clone(one.Payload)
	}
	return list, err
}

// timestamp returns the RTP timestamp at which a frame is shown. It wraps around.
func (p *packer) timestamp(s cmaf.Sample) uint32 {
	hi, lo := bits.Mul64(p.present(s), p.rate)
	ticks, _ := bits.Div64(hi%uint64(p.track.Timescale), lo, uint64(p.track.Timescale))
	return uint32(ticks)
}

// present returns the time at which a frame is shown, a second later than that: the first frames of a file may be due
// before zero.
func (p *packer) present(s cmaf.Sample) uint64 {
	return uint64(max(int64(s.DecodeTime)+int64(s.Offset)+int64(p.track.Timescale), 0))
}
