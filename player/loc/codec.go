package loc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/Eyevinn/mp4ff/bits"
	"github.com/Eyevinn/mp4ff/mp4"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/mpeg4audio"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/vp8"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/vp9"

	"sluice/player/catalog"
)

// codec knows the bitstream of a track.
type codec interface {
	kind() string // "video" or "audio", as mp4ff has it
	// read parses a frame. ok is false if it is malformed.
	read(Frame) (u unit, ok bool)
	// decodeTime returns the decode time of a unit. Times are in units of clockRate.
	decodeTime(u unit, present int64) int64
	frameLength() float64 // seconds; an estimate for the first frame
	// entry returns the sample entry. It is called after a unit with key set.
	entry() (mp4.Box, error)
}

// unit is a frame as the output has it.
type unit struct {
	payload []byte
	key     bool     // decoding can start here, and the codec has all that entry needs
	nals    [][]byte // H.264 and H.265
}

// newCodec returns the codec of a track by its name (RFC 6381).
func newCodec(t catalog.TrackEntry) (codec, error) {
	name, _, _ := strings.Cut(t.Codec, ".")
	switch strings.ToLower(name) {
	case "avc1", "avc3":
		return newAVC(t), nil
	case "hvc1", "hev1":
		return newHEVC(t), nil
	case "av01":
		return &av1Codec{picture{t}}, nil
	case "vp09", "vp9":
		return &vpCodec{picture{t}, "vp09", vp9.IsRandomAccess}, nil
	case "vp08", "vp8":
		return &vpCodec{picture{t}, "vp08", vp8.IsRandomAccess}, nil
	case "mp4a":
		return newAAC(t)
	case "opus":
		return &opusCodec{sound{t}}, nil
	}
	return nil, fmt.Errorf("codec %q cannot be played from packaging %s: "+
		"must be H.264, H.265, AV1, VP8, VP9, AAC or Opus", t.Codec, t.Packaging)
}

// picture is the part that video codecs share.
type picture struct{ track catalog.TrackEntry }

func (p picture) kind() string { return "video" }

func (p picture) frameLength() float64 {
	if rate := p.track.Framerate; rate >= 1 && rate <= 1000 {
		return 1 / rate
	}
	return 1.0 / 30
}

func (p picture) decodeTime(_ unit, present int64) int64 { return present }

func (p picture) sampleEntry(typ string, config mp4.Box) mp4.Box {
	return mp4.CreateVisualSampleEntryBox(typ, size(p.track.Width), size(p.track.Height), config)
}

func size(n int) uint16 { return uint16(max(0, min(n, math.MaxUint16))) }

// configBox returns a box with a decoder's configuration. It is not parsed: it may come from anywhere.
func configBox(typ string, body []byte) (mp4.Box, error) {
	return mp4.DecodeUnknownSR(mp4.BoxHeader{Name: typ, Size: uint64(len(body) + 8), Hdrlen: 8}, 0,
		bits.NewFixedSliceReader(body))
}

// level returns the n-th field of a codec's name as a number, or def.
func level(name string, n, def int) byte {
	fields := strings.Split(name, ".")
	if n < len(fields) {
		if v, err := strconv.ParseUint(strings.TrimRight(fields[n], "MH"), 10, 8); err == nil {
			return byte(v)
		}
	}
	return byte(def)
}

// av1Codec has the sequence header in key frames.
type av1Codec struct{ picture }

func (c *av1Codec) read(f Frame) (unit, bool) {
	list, ok := obus(f.Payload)
	if len(f.Config) > 0 {
		c.track.InitData = f.Config
	}
	key := slices.ContainsFunc(list, func(o obu) bool { return o.typ == obuSequenceHeader })
	return unit{payload: f.Payload, key: key}, ok
}

// entry makes av1C of the codec's name if nobody says it (AV1 Codec ISO Media File Format Binding §2.3).
func (c *av1Codec) entry() (mp4.Box, error) {
	config := c.track.InitData
	if len(config) < 4 {
		name := c.track.Codec
		config = []byte{0x81, level(name, 1, 0)<<5 | level(name, 2, 8)&31, 0x0c, 0} // 4:2:0
		if strings.Contains(name, "H.") {
			config[2] |= 0x80
		}
		switch level(name, 3, 8) {
		case 10:
			config[2] |= 0x40
		case 12:
			config[2] |= 0x60
		}
	}
	b, err := configBox("av1C", config)
	return c.sampleEntry("av01", b), err
}

// vpCodec is VP8 or VP9.
type vpCodec struct {
	picture
	typ   string
	isKey func([]byte) bool
}

func (c *vpCodec) read(f Frame) (unit, bool) {
	return unit{payload: f.Payload, key: len(f.Payload) > 0 && c.isKey(f.Payload)}, len(f.Payload) > 0
}

// entry makes vpcC of the codec's name (VP Codec ISO Media File Format Binding §3).
func (c *vpCodec) entry() (mp4.Box, error) {
	name := c.track.Codec
	b, err := configBox("vpcC", []byte{
		1, 0, 0, 0, // version and flags
		level(name, 1, 0), level(name, 2, 10), level(name, 3, 8)<<4 | 1<<1, // 4:2:0
		2, 2, 2, 0, 0, // colours are not specified; no initialization data
	})
	return c.sampleEntry(c.typ, b), err
}

// sound is the part that audio codecs share: each frame is a key frame.
type sound struct{ track catalog.TrackEntry }

func (s sound) kind() string { return "audio" }

func (s sound) read(f Frame) (unit, bool) {
	return unit{payload: f.Payload, key: true}, len(f.Payload) > 0
}

func (s sound) decodeTime(_ unit, present int64) int64 { return present }

func (s sound) sampleEntry(typ string, config mp4.Box) mp4.Box {
	channels, _ := strconv.Atoi(s.track.Channels)
	return mp4.CreateAudioSampleEntryBox(typ, max(size(channels), 1), 16, size(s.track.SampleRate), config)
}

// aac has its configuration in the catalog, or in a property.
type aac struct{ sound }

func newAAC(t catalog.TrackEntry) (*aac, error) {
	if len(t.InitData) == 0 {
		if t.SampleRate <= 0 {
			return nil, errors.New("AAC without a configuration or a sample rate in the catalog")
		}
		channels, _ := strconv.Atoi(t.Channels)
		var err error
		t.InitData, err = mpeg4audio.AudioSpecificConfig{
			Type: mpeg4audio.ObjectTypeAACLC, SampleRate: t.SampleRate, ChannelConfig: uint8(max(1, min(channels, 7))),
		}.Marshal()
		if err != nil {
			return nil, fmt.Errorf("AAC with %d Hz: %w", t.SampleRate, err)
		}
	}
	return &aac{sound{t}}, nil
}

func (c *aac) read(f Frame) (unit, bool) {
	if len(f.Config) > 0 {
		c.track.InitData = f.Config
	}
	return c.sound.read(f)
}

func (c *aac) frameLength() float64 { return 1024 / float64(max(c.track.SampleRate, 8000)) }

func (c *aac) entry() (mp4.Box, error) {
	if len(c.track.InitData) > 64 {
		return nil, errors.New("the AudioSpecificConfig is too long")
	}
	return c.sampleEntry("mp4a", mp4.CreateEsdsBox(c.track.InitData)), nil
}

// opusCodec has one or two channels, which need no configuration.
type opusCodec struct{ sound }

func (c *opusCodec) frameLength() float64 { return 0.02 }

func (c *opusCodec) entry() (mp4.Box, error) {
	channels, _ := strconv.Atoi(c.track.Channels)
	if channels > 2 {
		return nil, fmt.Errorf("codec opus with %d channels cannot be played: must be 1 or 2", channels)
	}
	// Encapsulation of Opus in ISO Base Media File Format §4.3.2
	config := []byte{0, byte(max(channels, 1)), 0, 0}
	config = binary.BigEndian.AppendUint32(config, 48000)
	b, err := configBox("dOps", append(config, 0, 0, 0))
	return mp4.CreateAudioSampleEntryBox("Opus", uint16(max(channels, 1)), 16, 48000, b), err
}
