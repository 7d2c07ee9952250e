package cmaf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Kind is the kind of media in a track.
type Kind string

// Values of Kind, named as the roles of MSF catalogs.
const (
	Video    Kind = "video"
	Audio    Kind = "audio"
	Subtitle Kind = "subtitle"
	Data     Kind = "data"
)

// Init is an initialization segment: the ftyp and moov boxes, without media.
type Init struct {
	Data   []byte // as in the stream
	Tracks []TrackInfo
}

// TrackInfo describes one track of an Init. Zero values mean unknown or not applicable.
type TrackInfo struct {
	ID            uint32
	Kind          Kind
	Timescale     uint32 // ticks per second
	Codec         string // RFC 6381, such as avc1.4d401e
	Width, Height int    // pixels
	SampleRate    int    // Hz
	Channels      int
	Bitrate       int    // bits per second, the maximum that the file states
	Language      string // ISO 639-2, empty for und
	Config        []byte // of the decoder: the body of avcC, hvcC or av1C, or the AudioSpecificConfig

	defaults defaults
}

// defaults are the values of a trex or tfhd box for samples that do not state their own.
type defaults struct{ duration, size, flags uint32 }

// ParseInit reads an initialization segment that is in memory.
func ParseInit(data []byte) (*Init, error) {
	moov := find(data, "moov")
	if moov == nil {
		return nil, errors.New("no moov box in the init segment")
	}
	in := &Init{Data: data}
	for x, err := range boxes(moov) {
		if err != nil {
			return nil, fmt.Errorf("moov: %w", err)
		}
		if x.typ != "trak" {
			continue
		}
		t, err := parseTrak(x.body)
		if err != nil {
			return nil, err
		}
		if in.Tracks = append(in.Tracks, t); len(in.Tracks) > maxTracks {
			return nil, fmt.Errorf("more than %d tracks", maxTracks)
		}
	}
	if len(in.Tracks) == 0 {
		return nil, errors.New("the moov box has no tracks")
	}
	in.readDefaults(find(moov, "mvex"))
	return in, nil
}

// Track returns the track with this id, or nil.
func (in *Init) Track(id uint32) *TrackInfo {
	for i := range in.Tracks {
		if in.Tracks[i].ID == id {
			return &in.Tracks[i]
		}
	}
	return nil
}

// readDefaults reads the sample defaults of the trex boxes (ISO/IEC 14496-12 §8.8.3).
func (in *Init) readDefaults(mvex []byte) {
	for x, err := range boxes(mvex) {
		if err != nil || x.typ != "trex" || len(x.body) < 24 {
			continue
		}
		if t := in.Track(binary.BigEndian.Uint32(x.body[4:])); t != nil {
			t.defaults = defaults{
				duration: binary.BigEndian.Uint32(x.body[12:]),
				size:     binary.BigEndian.Uint32(x.body[16:]),
				flags:    binary.BigEndian.Uint32(x.body[20:]),
			}
		}
	}
}

// Renumber returns the init segment with other track IDs. Tracks that ids does not have keep theirs.
func (in *Init) Renumber(ids map[uint32]uint32) (*Init, error) {
	data := edit(in.Data, func(tkhd box) []byte {
		return renumber(tkhd, len(tkhd.body)-len(afterTimes(tkhd.body)), ids)
	}, "moov", "trak", "tkhd")
	return ParseInit(edit(data, func(trex box) []byte { return renumber(trex, 4, ids) }, "moov", "mvex", "trex"))
}

// Samples returns the frames of an object with chunks of a single track, as ParseChunk takes it.
func (in *Init) Samples(object []byte) (samples []Sample, err error) {
	left := uint64(len(object))
	for rest := object; len(rest) > 0; {
		x, err := firstBox(rest)
		if err != nil {
			return nil, err
		}
		if x.typ == "moof" {
			frags, err := in.parseMoof(x.body)
			if err != nil {
				return nil, err
			}
			for i := range frags {
				if samples, err = frags[i].appendSamples(samples, rest, &left); err != nil {
					return nil, fmt.Errorf("track %d: %w", frags[i].track, err)
				}
			}
		}
		rest = rest[len(x.raw):]
	}
	return samples, nil
}

func parseTrak(trak []byte) (TrackInfo, error) {
	var t TrackInfo
	tkhd, mdhd, hdlr := find(trak, "tkhd"), find(trak, "mdia", "mdhd"), find(trak, "mdia", "hdlr")
	id := afterTimes(tkhd)
	scale := afterTimes(mdhd)
	if len(id) < 4 || len(scale) < 4 || len(hdlr) < 12 {
		return t, errors.New("trak: the tkhd, mdhd or hdlr box is missing or short")
	}
	t.ID, t.Timescale = binary.BigEndian.Uint32(id), binary.BigEndian.Uint32(scale)
	if t.Timescale == 0 {
		return t, fmt.Errorf("track %d has a timescale of zero", t.ID)
	}
	t.Kind = kindOf(string(hdlr[8:12]))
	t.Language = language(scale, mdhd[0])
	for entry := range boxes(skipBytes(find(trak, "mdia", "minf", "stbl", "stsd"), 8)) {
		t.describe(entry)
		break
	}
	return t, nil
}

// afterTimes returns the fields that follow the creation and modification times of a tkhd or mdhd box, which have 32
// bits in version 0 and 64 bits in version 1.
func afterTimes(full []byte) []byte {
	if len(full) == 0 || full[0] != 1 {
		return skipBytes(full, 4+8)
	}
	return skipBytes(full, 4+16)
}

// language decodes the packed ISO 639-2 code that follows timescale and duration in mdhd.
func language(afterTimes []byte, version byte) string {
	at := 8
	if version == 1 {
		at = 12
	}
	if len(afterTimes) < at+2 {
		return ""
	}
	v := binary.BigEndian.Uint16(afterTimes[at:])
	code := string([]byte{byte(v>>10&31) + 0x60, byte(v>>5&31) + 0x60, byte(v&31) + 0x60})
	if code == "und" || v&0x8000 != 0 || v == 0 {
		return ""
	}
	return code
}

func kindOf(handler string) Kind {
	switch handler {
	case "vide":
		return Video
	case "soun":
		return Audio
	case "subt", "text":
		return Subtitle
	}
	return Data
}

func skipBytes(b []byte, n int) []byte {
	return b[min(n, len(b)):]
}

// Time converts ticks of the track to a duration, at most 292 years.
func (t *TrackInfo) Time(ticks uint64) time.Duration {
	hi, lo := bits.Mul64(ticks, uint64(time.Second))
	if hi >= uint64(t.Timescale) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(t.Timescale))
	return time.Duration(min(q, 1<<63-1))
}

// Ticks converts a duration to ticks of the track, rounding up.
func (t *TrackInfo) Ticks(d time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(max(d, 0)), uint64(t.Timescale))
	lo, carry := bits.Add64(lo, uint64(time.Second)-1, 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(time.Second))
	return q
}

// describe sets the fields that come from the sample entry of the track (ISO/IEC 14496-12 §12).
func (t *TrackInfo) describe(entry box) {
	t.Codec = entry.typ
	switch t.Kind {
	case Video:
		t.describeVideo(entry)
	case Audio:
		t.describeAudio(entry)
	}
}

// describeVideo reads a VisualSampleEntry: 78 bytes of fields, then boxes.
func (t *TrackInfo) describeVideo(entry box) {
	if len(entry.body) < 78 {
		return
	}
	t.Width = int(binary.BigEndian.Uint16(entry.body[24:]))
	t.Height = int(binary.BigEndian.Uint16(entry.body[26:]))
	config := entry.body[78:]
	t.bitrate(config)
	for _, known := range videoCodecs {
		if c := find(config, known.box); len(c) >= known.size {
			t.Codec = known.name(entry.typ, c)
			if known.box != "vpcC" {
				t.Config = c
			}
			return
		}
	}
}

// describeAudio reads an AudioSampleEntry: 28 bytes of fields, then boxes.
func (t *TrackInfo) describeAudio(entry box) {
	if len(entry.body) < 28 {
		return
	}
	t.Channels = int(binary.BigEndian.Uint16(entry.body[16:]))
	t.SampleRate = int(binary.BigEndian.Uint16(entry.body[24:])) // the integer part of 16.16
	config := entry.body[28:]
	t.bitrate(config)
	switch entry.typ {
	case "mp4a":
		t.describeESDS(skipBytes(find(config, "esds"), 4))
	case "Opus", "fLaC":
		t.Codec = strings.ToLower(entry.typ)
	}
}

// describeESDS reads the descriptors of ISO/IEC 14496-1 §7.2.6 down to the audio object type.
func (t *TrackInfo) describeESDS(b []byte) {
	es := descriptor(b, 3)
	if len(es) < 3 {
		return
	}
	optional := 3
	if es[2]&0x80 != 0 { // dependsOn_ES_ID
		optional += 2
	}
	if es[2]&0x40 != 0 && len(es) > optional { // URL
		optional += 1 + int(es[optional])
	}
	if es[2]&0x20 != 0 { // OCR_ES_ID
		optional += 2
	}
	config := descriptor(skipBytes(es, optional), 4)
	if len(config) < 13 {
		return
	}
	t.Codec = fmt.Sprintf("mp4a.%02x", config[0])
	if t.Bitrate == 0 {
		t.Bitrate = int(max(binary.BigEndian.Uint32(config[5:]), binary.BigEndian.Uint32(config[9:])))
	}
	if specific := descriptor(config[13:], 5); len(specific) >= 2 && config[0] == 0x40 {
		t.Config = specific
		object := int(specific[0] >> 3)
		if object == 31 { // escape: 6 more bits
			object = 32 + int(specific[0]&7)<<3 + int(specific[1]>>5)
		}
		t.Codec += fmt.Sprintf(".%d", object)
	}
}

// bitrate takes the maximum bit rate of a btrt box (ISO/IEC 14496-12 §8.5.2).
func (t *TrackInfo) bitrate(config []byte) {
	if btrt := find(config, "btrt"); len(btrt) >= 12 {
		t.Bitrate = int(max(binary.BigEndian.Uint32(btrt[4:]), binary.BigEndian.Uint32(btrt[8:])))
	}
}
