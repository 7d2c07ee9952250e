package loc

import (
	"bytes"
	"encoding/binary"

	"github.com/Eyevinn/mp4ff/mp4"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h265"

	"sluice/player/catalog"
)

// nalCodec is H.264 or H.265. Its parameter sets are in the configuration, or in key frames.
type nalCodec struct {
	picture
	config     []byte            // body of avcC or hvcC, nil: the parameter sets count
	parameters map[byte][][]byte // parameter sets by the type of the NAL unit
	wanted     []byte            // their types
	typeOf     func(nal []byte) byte
	isKey      func(nals [][]byte) bool
	extractor  extractor
	fresh      func() extractor
	describe   func(*nalCodec) (mp4.Box, error)
}

// extractor finds decode times from the order of pictures.
type extractor interface {
	Extract(nals [][]byte, present int64) (int64, error)
}

func newNAL(t catalog.TrackEntry) nalCodec {
	return nalCodec{picture: picture{t}, config: t.InitData, parameters: map[byte][][]byte{}}
}

// Types of NAL units with parameter sets.
const (
	avcSPS, avcPPS            = 7, 8
	hevcVPS, hevcSPS, hevcPPS = 32, 33, 34
)

func newAVC(t catalog.TrackEntry) *nalCodec {
	c := newNAL(t)
	c.wanted = []byte{avcSPS, avcPPS}
	c.typeOf = func(nal []byte) byte { return nal[0] & 31 }
	c.isKey = h264.IsRandomAccess
	c.fresh = func() extractor {
		d := &h264.DTSExtractor{}
		d.Initialize()
		return d
	}
	c.describe = describeAVC
	c.takeConfig(t.InitData)
	return &c
}

func newHEVC(t catalog.TrackEntry) *nalCodec {
	c := newNAL(t)
	c.wanted = []byte{hevcVPS, hevcSPS, hevcPPS}
	c.typeOf = func(nal []byte) byte { return nal[0] >> 1 & 63 }
	c.isKey = h265.IsRandomAccess
	c.fresh = func() extractor {
		d := &h265.DTSExtractor{}
		d.Initialize()
		return d
	}
	c.describe = describeHEVC
	c.takeConfig(t.InitData)
	return &c
}

func (c *nalCodec) read(f Frame) (unit, bool) {
	if len(f.Config) > 0 {
		c.takeConfig(f.Config)
	}
	nals, payload, ok := split(f.Payload)
	if !ok {
		return unit{}, false
	}
	inBand := map[byte][][]byte{}
	for _, n := range nals {
		if typ := c.typeOf(n); bytes.IndexByte(c.wanted, typ) >= 0 {
			inBand[typ] = append(inBand[typ], n)
		}
	}
	if len(inBand) == len(c.wanted) {
		c.config, c.parameters = nil, inBand
	}
	u := unit{payload: payload, nals: nals}
	u.key = c.isKey(nals) && len(c.parameters) == len(c.wanted)
	return u, true
}

// split returns the NAL units of a frame, and the frame with a length before each. Start codes instead are allowed; as
// a length, a start code would be 1 (LOC §2.1.3). The first one has to have four bytes: one of three could be the
// length of a NAL unit.
func split(b []byte) (nals [][]byte, payload []byte, ok bool) {
	if bytes.HasPrefix(b, []byte{0, 0, 0, 1}) {
		var units h264.AnnexB
		if err := units.Unmarshal(b); err != nil {
			return nil, nil, false
		}
		nals = dropEmpty(units)
		payload, err := h264.AVCC(nals).Marshal()
		return nals, payload, err == nil && len(nals) > 0
	}
	var units h264.AVCC
	if err := units.Unmarshal(b); err != nil {
		return nil, nil, false
	}
	return units, b, true
}

func dropEmpty(nals [][]byte) (out [][]byte) {
	for _, n := range nals {
		if len(n) > 0 {
			out = append(out, n)
		}
	}
	return out
}

// decodeTime asks the library, which needs the parameter sets in each key frame. Where the order of pictures is not
// known, a frame is decoded when it is shown.
func (c *nalCodec) decodeTime(u unit, present int64) int64 {
	nals := u.nals
	if u.key {
		nals = nil
		for _, typ := range c.wanted {
			nals = append(nals, c.parameters[typ]...)
		}
		nals = append(nals, u.nals...)
	}
	if c.extractor == nil {
		c.extractor = c.fresh()
	}
	at, err := c.extractor.Extract(nals, present)
	if err != nil {
		c.extractor = nil // the next key frame begins again
		return present
	}
	return at
}

// takeConfig takes the parameter sets of a configuration.
func (c *nalCodec) takeConfig(config []byte) {
	parse := avcParameters
	if len(c.wanted) == 3 {
		parse = hevcParameters
	}
	if sets := parse(config); len(sets) == len(c.wanted) {
		c.config, c.parameters = config, sets
	}
}

// ParameterSets returns the parameter sets in a configuration of H.264 or H.265, each with its length, as they may
// precede a key frame. Other codecs have none.
func ParameterSets(codec string, config []byte) []byte {
	c, err := newCodec(catalog.TrackEntry{Codec: codec, InitData: config})
	if nal, ok := c.(*nalCodec); err == nil && ok {
		return nal.sets()
	}
	return nil
}

// sets returns the parameter sets, each with its length.
func (c *nalCodec) sets() (b []byte) {
	for _, typ := range c.wanted {
		for _, set := range c.parameters[typ] {
			b = binary.BigEndian.AppendUint32(b, uint32(len(set)))
			b = append(b, set...)
		}
	}
	return b
}

// avcParameters returns the parameter sets of an AVCDecoderConfigurationRecord (ISO/IEC 14496-15 §5.3.3.1).
func avcParameters(config []byte) map[byte][][]byte {
	sets := map[byte][][]byte{}
	r := reader(config)
	r.take(5)
	sets[avcSPS] = r.units(int(r.number(1)) & 31)
	sets[avcPPS] = r.units(int(r.number(1)))
	return whole(sets)
}

// hevcParameters returns the parameter sets of an HEVCDecoderConfigurationRecord (ISO/IEC 14496-15 §8.3.3.1).
func hevcParameters(config []byte) map[byte][][]byte {
	sets := map[byte][][]byte{}
	r := reader(config)
	r.take(22)
	for range r.number(1) {
		typ := byte(r.number(1)) & 63
		units := r.units(int(r.number(2)))
		if hevcVPS <= typ && typ <= hevcPPS {
			sets[typ] = units
		}
	}
	return whole(sets)
}

// whole returns the sets, or fewer if one is empty.
func whole(sets map[byte][][]byte) map[byte][][]byte {
	for typ, units := range sets {
		if len(units) == 0 {
			delete(sets, typ)
		}
	}
	return sets
}

// reader reads a configuration. Beyond its end, everything is zero or empty.
type reader []byte

func (r *reader) take(n int) []byte {
	if n > len(*r) {
		*r = nil
		return nil
	}
	b := (*r)[:n:n]
	*r = (*r)[n:]
	return b
}

func (r *reader) number(size int) (v uint64) {
	for _, b := range r.take(size) {
		v = v<<8 | uint64(b)
	}
	return v
}

// units reads n NAL units with their lengths.
func (r *reader) units(n int) (units [][]byte) {
	for range n {
		if u := r.take(int(r.number(2))); len(u) > 0 {
			units = append(units, u)
		}
	}
	return units
}

func (c *nalCodec) entry() (mp4.Box, error) { return c.describe(c) }

// describeAVC returns avc1 if the parameter sets are in the configuration, and avc3 if they are in the frames.
func describeAVC(c *nalCodec) (mp4.Box, error) {
	var sps h264.SPS
	if err := sps.Unmarshal(c.parameters[avcSPS][0]); err == nil {
		c.track.Width, c.track.Height = sps.Width(), sps.Height()
	}
	if c.config != nil {
		b, err := configBox("avcC", c.config)
		return c.sampleEntry("avc1", b), err
	}
	record, err := AVCConfig(c.parameters[avcSPS], c.parameters[avcPPS])
	if err != nil {
		return nil, err
	}
	b, err := configBox("avcC", record)
	return c.sampleEntry("avc3", b), err
}

// describeHEVC returns hvc1 or hev1, likewise.
func describeHEVC(c *nalCodec) (mp4.Box, error) {
	var sps h265.SPS
	if err := sps.Unmarshal(c.parameters[hevcSPS][0]); err == nil {
		c.track.Width, c.track.Height = sps.Width(), sps.Height()
	}
	if c.config != nil {
		b, err := configBox("hvcC", c.config)
		return c.sampleEntry("hvc1", b), err
	}
	record, err := HEVCConfig(c.parameters[hevcVPS], c.parameters[hevcSPS], c.parameters[hevcPPS], false)
	if err != nil {
		return nil, err
	}
	b, err := configBox("hvcC", record)
	return c.sampleEntry("hev1", b), err
}
