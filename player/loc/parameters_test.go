package loc

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/Eyevinn/mp4ff/avc"
	"github.com/Eyevinn/mp4ff/hevc"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/player/catalog"
)

// The configurations of the clips' parameter sets are those that another library makes of them.
func TestConfigs(t *testing.T) {
	for name, want := range map[string]func(map[byte][][]byte) []byte{
		"avc.mp4": func(sets map[byte][][]byte) []byte {
			record, err := avc.CreateAVCDecConfRec(sets[avcSPS], sets[avcPPS], true)
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, record.Encode(&b))
			got, err := AVCConfig(sets[avcSPS], sets[avcPPS])
			require.NoError(t, err)
			require.Equal(t, b.Bytes(), got)
			return got
		},
		"hevc.mp4": func(sets map[byte][][]byte) []byte {
			record, err := hevc.CreateHEVCDecConfRec(sets[hevcVPS], sets[hevcSPS], sets[hevcPPS], true, true, true,
				true)
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, record.Encode(&b))
			got, err := HEVCConfig(sets[hevcVPS], sets[hevcSPS], sets[hevcPPS], true)
			require.NoError(t, err)
			require.Equal(t, b.Bytes(), got)
			return got
		},
	} {
		tracks, _ := clip(t, name)
		c, err := newCodec(entry(tracks[0]))
		require.NoError(t, err)
		config := want(c.(*nalCodec).parameters)
		require.Equal(t, c.(*nalCodec).sets(), ParameterSets(tracks[0].Codec, config), "they are in it")
	}
}

func TestConfigErrors(t *testing.T) {
	long := make([]byte, 1<<16)
	for name, c := range map[string]struct {
		sps, pps [][]byte
		want     string
	}{
		"none":             {nil, nil, "too many parameter sets"},
		"an empty one":     {[][]byte{{}}, nil, "ends before"},
		"a short one":      {[][]byte{{0x67, 100, 0, 30}}, nil, "ends before"},
		"a number of ones": {[][]byte{bytes.Repeat([]byte{0}, 64)}, [][]byte{long}, "one is too long"},
		"many":             {make([][]byte, 32), nil, "too many"},
	} {
		_, err := AVCConfig(c.sps, c.pps)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := HEVCConfig(nil, [][]byte{{0x42, 1, 1}}, nil, true)
	require.ErrorContains(t, err, "ends before")
	_, err = HEVCConfig(nil, [][]byte{append([]byte{0x42, 1, 1}, bytes.Repeat([]byte{0}, 300)...)}, nil, true)
	require.ErrorContains(t, err, "ends before", "a number with too many zeros")
}

// hostileSets are parameter sets of H.264 and H.265 with absurd numbers in them: a library wanted 128 GiB for the
// first, and counted to 256 with a byte for the second.
func hostileSets(t testing.TB) (avc, hevc []byte) {
	avc, err := base64.StdEncoding.DecodeString("Z2QQHoBBHNVAAAAAH////////w==")
	require.NoError(t, err)
	return avc, append([]byte{0x42, 1, 0x0f}, bytes.Repeat([]byte{0xff}, 200)...)
}

// A parameter set does not cost more than its bytes, whatever it says.
func TestHostileParameterSets(t *testing.T) {
	avc, hevc := hostileSets(t)
	for codec, sets := range map[string][][]byte{
		"avc3.64101e": {avc, {0x68, 0xce}}, "hev1.1.6.L30.90": {{0x40, 1, 0xff}, hevc, {0x44, 1, 0xff}},
	} {
		key := []byte{0x65, 0x88, 0x80, 0x10}
		if codec[0] == 'h' {
			key = []byte{0x26, 1, 0xaf, 0x10}
		}
		var frame []byte
		for _, unit := range append(sets, key) {
			frame = append(append(frame, 0, 0, 0, byte(len(unit))), unit...)
		}
		testlimit.Run(t, len(frame), 100, func() {
			m, err := NewMuxer(1, catalog.TrackEntry{Codec: codec, Packaging: catalog.LOC})
			require.NoError(t, err)
			s, ok := m.Add(Frame{Payload: frame})
			require.True(t, ok, codec)
			_, err = m.Init()
			require.NoError(t, err, "the fields that are needed are there")
			_, err = m.Chunk(s, 0)
			require.NoError(t, err)
		})
	}
}

func FuzzParameterSets(f *testing.F) {
	avc, hevc := hostileSets(f)
	f.Add(avc, []byte{0x68, 0xce})
	f.Add(hevc, []byte{0x44, 1, 0xff})
	for _, name := range []string{"avc.mp4", "hevc.mp4"} {
		tracks, _ := clip(f, name)
		c, err := newCodec(entry(tracks[0]))
		require.NoError(f, err)
		for _, sets := range c.(*nalCodec).parameters {
			f.Add(sets[0], sets[0])
		}
	}
	f.Fuzz(func(t *testing.T, sps, pps []byte) {
		testlimit.Run(t, len(sps)+len(pps), 100, func() {
			one, other := [][]byte{sps}, [][]byte{pps}
			if config, err := AVCConfig(one, other); err == nil && len(pps) > 0 {
				require.Equal(t, map[byte][][]byte{avcSPS: one, avcPPS: other}, avcParameters(config))
			}
			if config, err := HEVCConfig(other, one, other, true); err == nil && len(pps) > 0 {
				sets := map[byte][][]byte{hevcVPS: other, hevcSPS: one, hevcPPS: other}
				require.Equal(t, sets, hevcParameters(config))
			}
		})
	})
}
