package rtpsplit

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtpav1"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtph264"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtph265"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtpmpeg4audio"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtpvp8"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtpvp9"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/mpeg4audio"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

const (
	full  = 1472 // a packet that fills a datagram
	limit = full - 10
	room  = limit - 12
)

// pattern returns a head and bytes that tell their place.
func pattern(head []byte, size int) []byte {
	b := bytes.Clone(head)
	for i := len(b); i < size; i++ {
		b = append(b, byte(i*7+i>>8))
	}
	return b
}

func aac() *format.MPEG4Audio {
	return &format.MPEG4Audio{
		PayloadTyp: 97, SizeLength: 13, IndexLength: 3, IndexDeltaLength: 3,
		Config: &mpeg4audio.AudioSpecificConfig{
			Type: mpeg4audio.ObjectTypeAACLC, SampleRate: 48000, ChannelConfig: 2,
		},
	}
}

// codec makes packets that fill datagrams, as publishers do, and reads packets.
type codec struct {
	format format.Format
	encode func() ([]*rtp.Packet, error)
	decode func(*rtp.Packet) ([][]byte, error)
}

// codecs returns each format with the library's own encoder and decoder.
func codecs(t testing.TB) map[string]codec {
	frame := [][]byte{
		pattern([]byte{0x67}, 20), pattern([]byte{0x68}, 700), pattern([]byte{0x06}, 735), pattern([]byte{0x65}, 5000),
		pattern([]byte{0x65}, full-12),
	}
	avc := &format.H264{PayloadTyp: 96, PacketizationMode: 1}
	avcIn := &rtph264.Encoder{PayloadType: 96, PayloadMaxSize: full - 12, PacketizationMode: 1}
	avcOut := &rtph264.Decoder{PacketizationMode: 1}
	hevc := &format.H265{PayloadTyp: 96}
	hevcIn, hevcOut := &rtph265.Encoder{PayloadType: 96, PayloadMaxSize: full - 12}, new(rtph265.Decoder)
	hevcFrame := [][]byte{
		pattern([]byte{64, 1}, 20), pattern([]byte{66, 1}, 700), pattern([]byte{68, 1}, 735),
		pattern([]byte{38, 1}, 5000), pattern([]byte{38, 1}, full-12),
	}
	av1 := &format.AV1{PayloadTyp: 96}
	av1In, av1Out := &rtpav1.Encoder{PayloadType: 96, PayloadMaxSize: full - 12}, new(rtpav1.Decoder)
	av1Frame := [][]byte{pattern([]byte{0x08}, 20), pattern([]byte{0x20}, 1300), pattern([]byte{0x30}, 4000)}
	vp8 := &format.VP8{PayloadTyp: 96}
	vp8In, vp8Out := &rtpvp8.Encoder{PayloadType: 96, PayloadMaxSize: full - 12}, new(rtpvp8.Decoder)
	vp9 := &format.VP9{PayloadTyp: 96}
	vp9In, vp9Out := &rtpvp9.Encoder{PayloadType: 96, PayloadMaxSize: full - 12}, new(rtpvp9.Decoder)
	sound := aac()
	aacIn := &rtpmpeg4audio.Encoder{
		PayloadType: 97, PayloadMaxSize: full - 12, SizeLength: 13, IndexLength: 3, IndexDeltaLength: 3,
	}
	aacOut := &rtpmpeg4audio.Decoder{SizeLength: 13, IndexLength: 3, IndexDeltaLength: 3}
	for _, e := range []interface{ Init() error }{
		avcIn, avcOut, hevcIn, hevcOut, av1In, av1Out, vp8In, vp8Out, vp9In, vp9Out, aacIn, aacOut,
	} {
		require.NoError(t, e.Init())
	}
	one := func(f func(*rtp.Packet) ([]byte, error)) func(*rtp.Packet) ([][]byte, error) {
		return func(p *rtp.Packet) ([][]byte, error) {
			b, err := f(p)
			return [][]byte{b}, err
		}
	}
	return map[string]codec{
		"H.264": {avc, func() ([]*rtp.Packet, error) { return avcIn.Encode(frame) }, avcOut.Decode},
		"H.265": {hevc, func() ([]*rtp.Packet, error) { return hevcIn.Encode(hevcFrame) }, hevcOut.Decode},
		"AV1":   {av1, func() ([]*rtp.Packet, error) { return av1In.Encode(av1Frame) }, av1Out.Decode},
		"VP8": {vp8, func() ([]*rtp.Packet, error) { return vp8In.Encode(pattern([]byte{0x10}, 5000)) },
			one(vp8Out.Decode)},
		"VP9": {vp9, func() ([]*rtp.Packet, error) { return vp9In.Encode(pattern([]byte{0x86}, 5000)) },
			one(vp9Out.Decode)},
		"AAC": {sound, func() ([]*rtp.Packet, error) {
			return aacIn.Encode([][]byte{pattern(nil, 360), pattern(nil, 361), pattern(nil, 362), pattern(nil, 367)})
		}, aacOut.Decode},
	}
}

// decoded returns a decoder's result for packets.
func decoded(t *testing.T, c codec, packets []*rtp.Packet) (units [][]byte) {
	for _, p := range packets {
		got, err := c.decode(p)
		if errors.Is(err, rtph264.ErrMorePacketsNeeded) || errors.Is(err, rtph265.ErrMorePacketsNeeded) ||
			errors.Is(err, rtpav1.ErrMorePacketsNeeded) || errors.Is(err, rtpvp8.ErrMorePacketsNeeded) ||
			errors.Is(err, rtpvp9.ErrMorePacketsNeeded) {
			continue
		}
		require.NoError(t, err)
		units = append(units, got...)
	}
	return units
}

// TestSplit checks, for each format, that a decoder gets the same of the smaller packets.
func TestSplit(t *testing.T) {
	for name := range codecs(t) {
		t.Run(name, func(t *testing.T) {
			c := codecs(t)[name]
			packets, err := c.encode()
			require.NoError(t, err)
			var small []*rtp.Packet
			large, next := 0, packets[0].SequenceNumber
			for _, p := range packets {
				before := p.Clone()
				pieces := Split(c.format, p, limit)
				require.NotEmpty(t, pieces)
				require.Equal(t, before, p)
				if p.MarshalSize() > limit {
					large++
					require.Greater(t, len(pieces), 1)
				}
				for i, one := range pieces {
					require.LessOrEqual(t, one.MarshalSize(), limit)
					require.Equal(t, p.SequenceNumber+uint16(i), one.SequenceNumber)
					one.SequenceNumber = next
					next++
				}
				small = append(small, pieces...)
			}
			require.NotZero(t, large)
			want := decoded(t, c, packets)
			require.NotEmpty(t, want)
			require.Equal(t, want, decoded(t, codecs(t)[name], small))
		})
	}
}

// TestTimestamps checks that frames of sound keep their times.
func TestTimestamps(t *testing.T) {
	packets, err := codecs(t)["AAC"].encode()
	require.NoError(t, err)
	packets[0].Timestamp = math.MaxUint32
	pieces := Split(aac(), packets[0], limit)
	require.Len(t, pieces, 2)
	require.Equal(t, []uint32{math.MaxUint32, 3*1024 - 1}, []uint32{pieces[0].Timestamp, pieces[1].Timestamp})
	require.True(t, pieces[0].Marker && pieces[1].Marker)

	payload := pattern(nil, full-12)
	for name, tc := range map[string]struct {
		format format.Format
		later  uint32
	}{
		"G.711":        {&format.G711{SampleRate: 8000, ChannelCount: 1}, room},
		"L16":          {&format.LPCM{BitDepth: 16, SampleRate: 48000, ChannelCount: 2}, room / 4},
		"G.711 stereo": {&format.G711{SampleRate: 8000, ChannelCount: 2}, room / 2},
	} {
		pieces := Split(tc.format, &rtp.Packet{Header: rtp.Header{Version: 2}, Payload: payload}, limit)
		require.Len(t, pieces, 2, name)
		require.Equal(t, tc.later, pieces[1].Timestamp, name)
		require.Equal(t, payload, append(bytes.Clone(pieces[0].Payload), pieces[1].Payload...), name)
	}
}

// TestPicturesOfJPEG compares the offsets of the pieces of a picture, byte for byte.
func TestPicturesOfJPEG(t *testing.T) {
	for name, tc := range map[string]struct {
		head []byte
		want [3]byte // the offset of the second piece
	}{
		"tables":  {append([]byte{0, 0, 0, 0, 1, 255, 4, 4, 0, 0, 0, 4}, 1, 2, 3, 4), [3]byte{0, 5, 0x9a}},
		"offset":  {[]byte{0, 1, 2, 3, 1, 255, 4, 4}, [3]byte{1, 7, 0xa5}},
		"default": {[]byte{0, 0, 0, 0, 1, 80, 4, 4}, [3]byte{0, 5, 0xa2}},
	} {
		t.Run(name, func(t *testing.T) {
			payload := pattern(tc.head, full-12)
			p := &rtp.Packet{Header: rtp.Header{Version: 2, Marker: true}, Payload: payload}
			pieces := Split(&format.MJPEG{}, p, limit)
			require.Len(t, pieces, 2)
			require.Equal(t, payload[:room], pieces[0].Payload)
			want := append([]byte{0, tc.want[0], tc.want[1], tc.want[2]}, tc.head[4:8]...)
			require.Equal(t, want, pieces[1].Payload[:8])
			require.Equal(t, payload[room:], pieces[1].Payload[8:])
			require.False(t, pieces[0].Marker)
			require.True(t, pieces[1].Marker)
		})
	}
}

// TestStructureOfVP9 checks that only the first piece has the scalability structure, and begins and ends are told.
func TestStructureOfVP9(t *testing.T) {
	head := []byte{
		0xa0 | vp9Begins | vp9Ends | vp9Structure, 0x81, 2, 3, 4, // with a long picture ID, and layers
		1<<5 | 0x18, 1, 2, 3, 4, 5, 6, 7, 8, 2, 1 << 2, 9, 0, // two sizes; two pictures, one difference
	}
	payload := pattern(head, full-12)
	size, structure := descriptorOfVP9(payload)
	require.Equal(t, len(head), size)
	require.Equal(t, 5, structure)
	pieces := splitVP9(payload, room)
	require.Len(t, pieces, 2)
	require.Equal(t, byte(0xa0|vp9Begins|vp9Structure), pieces[0].payload[0])
	require.Equal(t, payload[1:room], pieces[0].payload[1:])
	require.Equal(t, []byte{0xa0 | vp9Ends, 0x81, 2, 3, 4}, pieces[1].payload[:5])
	require.Equal(t, payload[room:], pieces[1].payload[5:])
}

// TestWhole checks which packets stay whole: padding is left out, and packets that cannot be cut are refused.
func TestWhole(t *testing.T) {
	padded := &rtp.Packet{
		Header: rtp.Header{Version: 2, Padding: true, PaddingSize: 40, Marker: true}, Payload: pattern(nil, full-52),
	}
	pieces := Split(&format.H264{PacketizationMode: 1}, padded, limit)
	require.Len(t, pieces, 1)
	require.Equal(t, full-40, pieces[0].MarshalSize())
	large := pattern([]byte{0x7d}, full-12)
	list := append(bytes.Clone([]byte{0, 16, 11, 64}), large...)
	for name, tc := range map[string]struct {
		format  format.Format
		payload []byte
	}{
		"Opus":          {&format.Opus{}, large},
		"no fragments":  {&format.H264{}, pattern([]byte{0x65}, full-12)},
		"interleaved":   {&format.H264{PacketizationMode: 2}, pattern([]byte{0x65}, full-12)},
		"MTAP":          {&format.H264{PacketizationMode: 1}, pattern([]byte{26}, full-12)},
		"PACI":          {&format.H265{}, pattern([]byte{50 << 1, 1}, full-12)},
		"numbers":       {&format.H265{MaxDONDiff: 1}, pattern([]byte{2, 1}, full-12)},
		"short STAP":    {&format.H264{PacketizationMode: 1}, pattern([]byte{24, 0xff, 0xff}, full-12)},
		"one AAC frame": {aac(), list[:full-12]},
		"AAC, unknown":  {&format.MPEG4Audio{}, large},
		"AV1, lengths":  {&format.AV1{}, pattern([]byte{0, 0xff, 0xff, 0x7f}, full-12)},
		"restarts":      {&format.MJPEG{}, pattern([]byte{0, 0, 0, 0, 64, 80, 4, 4}, full-12)},
	} {
		p := &rtp.Packet{Header: rtp.Header{Version: 2}, Payload: tc.payload}
		require.Empty(t, Split(tc.format, p, limit), name)
	}
	require.Empty(t, Split(&format.H264{PacketizationMode: 1}, &rtp.Packet{Payload: large}, minRoom))
}

// FuzzSplit cuts any payload: the pieces fit, and are few.
func FuzzSplit(f *testing.F) {
	list := []format.Format{
		&format.H264{PacketizationMode: 1}, &format.H265{}, &format.AV1{}, &format.VP8{}, &format.VP9{},
		&format.MJPEG{}, aac(),
		&format.G711{ChannelCount: 2}, &format.LPCM{BitDepth: 24, ChannelCount: 2},
	}
	for i, name := range []string{"H.264", "H.265", "AV1", "VP8", "VP9", "", "AAC"} {
		if c, ok := codecs(f)[name]; ok {
			packets, err := c.encode()
			require.NoError(f, err)
			for _, p := range packets {
				f.Add(uint8(i), uint16(limit), p.Payload)
			}
		}
	}
	f.Add(uint8(5), uint16(limit), pattern([]byte{0, 0, 0, 0, 1, 255, 4, 4, 0, 0, 0, 4}, full-12))
	f.Fuzz(func(t *testing.T, kind uint8, most uint16, payload []byte) {
		p := &rtp.Packet{Header: rtp.Header{Version: 2}, Payload: payload}
		before := bytes.Clone(payload)
		var pieces []*rtp.Packet
		testlimit.Run(t, len(payload), 1000, func() { pieces = Split(list[int(kind)%len(list)], p, int(most)) })
		require.Equal(t, before, payload)
		for _, one := range pieces {
			require.LessOrEqual(t, one.MarshalSize(), int(most))
		}
		if room := int(most) - 12; len(pieces) > 0 {
			require.LessOrEqual(t, len(pieces), 4*len(payload)/room+4)
		}
	})
}
