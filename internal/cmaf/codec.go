package cmaf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
)

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

var videoCodecs = []struct {
	box  string
	size int // number of bytes that name reads
	name func(entry string, config []byte) string
}{
	{"avcC", 4, avcName},
	{"hvcC", 13, hevcName},
	{"av1C", 3, av1Name},
	{"vpcC", 7, vpName},
}

// avcName returns the name by RFC 6381 §3.3.
func avcName(entry string, c []byte) string {
	return fmt.Sprintf("%s.%02x%02x%02x", entry, c[1], c[2], c[3])
}

// hevcName returns the name by ISO/IEC 14496-15 annex E.3.
func hevcName(entry string, c []byte) string {
	space := []string{"", "A", "B", "C"}[c[1]>>6]
	tier := "L"
	if c[1]&0x20 != 0 {
		tier = "H"
	}
	name := fmt.Sprintf("%s.%s%d.%X.%s%d", entry, space, c[1]&31, bits.Reverse32(binary.BigEndian.Uint32(c[2:])), tier,
		c[12])
	constraints := strings.TrimRight(string(c[6:12]), "\x00")
	for i := range len(constraints) {
		name += fmt.Sprintf(".%X", constraints[i])
	}
	return name
}

// av1Name returns the name by the AV1 Codec ISO Media File Format Binding §5.
func av1Name(entry string, c []byte) string {
	tier, depth := "M", 8
	if c[2]&0x80 != 0 {
		tier = "H"
	}
	if c[2]&0x40 != 0 {
		depth = 10
		if c[2]&0x20 != 0 {
			depth = 12
		}
	}
	return fmt.Sprintf("%s.%d.%02d%s.%02d", entry, c[1]>>5, c[1]&31, tier, depth)
}

// vpName returns the name by the VP Codec ISO Media File Format Binding. The box starts with version and flags.
func vpName(entry string, c []byte) string {
	return fmt.Sprintf("%s.%02d.%02d.%02d", entry, c[4], c[5], c[6]>>4)
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

// descriptor returns the body of the first descriptor in b if it has that tag.
func descriptor(b []byte, tag byte) []byte {
	if len(b) < 2 || b[0] != tag {
		return nil
	}
	size, at := 0, 1
	for ; at < min(len(b), 5); at++ { // at most four bytes of seven bits
		size = size<<7 | int(b[at]&0x7f)
		if b[at]&0x80 == 0 {
			at++
			break
		}
	}
	b = b[at:]
	return b[:min(size, len(b))]
}

// bitrate takes the maximum bit rate of a btrt box (ISO/IEC 14496-12 §8.5.2).
func (t *TrackInfo) bitrate(config []byte) {
	if btrt := find(config, "btrt"); len(btrt) >= 12 {
		t.Bitrate = int(max(binary.BigEndian.Uint32(btrt[4:]), binary.BigEndian.Uint32(btrt[8:])))
	}
}
