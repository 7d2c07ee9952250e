package rtsp

import (
	"testing"

	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

// videoFormats are those whose key frames are known.
var videoFormats = []format.Format{&format.H264{}, &format.H265{}, &format.AV1{}, &format.VP8{}, &format.VP9{}}

func TestKeyFrames(t *testing.T) {
	h264, h265, av1, vp8, vp9 := videoFormats[0], videoFormats[1], videoFormats[2], videoFormats[3], videoFormats[4]
	tests := []struct {
		name    string
		format  format.Format
		payload []byte
		want    bool
	}{
		{"IDR slice", h264, []byte{0x65, 1}, true},
		{"SPS", h264, []byte{0x67, 1}, true},
		{"other slice", h264, []byte{0x41, 1}, false},
		{"STAP-A with SPS", h264, []byte{24, 0, 1, 0x09, 0, 1, 0x67}, true},
		{"STAP-A without", h264, []byte{24, 0, 1, 0x09, 0, 1, 0x41}, false},
		{"STAP-A cut off", h264, []byte{24, 0, 9, 0x67}, false},
		{"FU-A of IDR", h264, []byte{28, 0x85}, true},
		{"FU-A of other", h264, []byte{28, 0x81}, false},
		{"FU-A cut off", h264, []byte{28}, false},

		{"CRA", h265, []byte{21 << 1, 1, 0}, true},
		{"VPS", h265, []byte{32 << 1, 1, 0}, true},
		{"TRAIL", h265, []byte{1 << 1, 1, 0}, false},
		{"PPS", h265, []byte{34 << 1, 1, 0}, false},
		{"AP with SPS", h265, []byte{48 << 1, 1, 0, 2, 35 << 1, 1, 0, 2, 33 << 1, 1}, true},
		{"AP without", h265, []byte{48 << 1, 1, 0, 2, 35 << 1, 1, 0, 2, 1 << 1, 1}, false},
		{"FU of IDR", h265, []byte{49 << 1, 1, 0x80 | 19}, true},
		{"FU of other", h265, []byte{49 << 1, 1, 0x80 | 1}, false},

		{"N", av1, []byte{0x18, 0x30}, true},
		{"sequence header without N", av1, []byte{0x10, 1 << 3, 0}, true},
		{"sequence header after a delimiter", av1, []byte{0x20, 2, 2 << 3, 0, 1 << 3, 0}, true},
		{"frame", av1, []byte{0x10, 6 << 3, 0}, false},
		{"fragment", av1, []byte{0x90, 1 << 3, 0}, false},
		{"elements with lengths", av1, []byte{0, 1, 2 << 3, 1, 1 << 3}, true},
		{"length beyond the end", av1, []byte{0, 9, 1 << 3}, false},

		{"key frame", vp8, []byte{0x10, 0}, true},
		{"interframe", vp8, []byte{0x10, 1}, false},
		{"second packet", vp8, []byte{0, 0}, false},
		{"extended", vp8, []byte{0x90, 0xf0, 0x80, 1, 2, 3, 0}, true},
		{"extended and cut off", vp8, []byte{0x90, 0xf0, 0x80}, false},

		{"key frame", vp9, []byte{0x88, 0x80, 1, 0x82}, true},
		{"predicted", vp9, []byte{0xc8, 0x80, 1, 0x82}, false},
		{"predicted, as its header says", vp9, []byte{0x88, 0x80, 1, 0x86}, false},
		{"shown again", vp9, []byte{0x08, 0x88}, false},
		{"second packet", vp9, []byte{0x00, 0x82}, false},
		{"key frame of profile 3", vp9, []byte{0x08, 0xb0}, true},
		{"predicted, profile 3", vp9, []byte{0x08, 0xb2}, false},
		{"no header", vp9, []byte{0x08, 0x02}, false},
		{"cut off", vp9, []byte{0x88, 0x80, 1}, false},
		{"higher layer", vp9, []byte{0xb8, 0x01, 0x02, 0x82}, false},
		{"lowest layer", vp9, []byte{0xb8, 0x01, 0x00, 0x82}, true},
	}
	for _, tc := range tests {
		require.Equal(t, tc.want, keyFuncOf(tc.format)(tc.payload), "%s of %s", tc.name, tc.format.RTPMap())
	}
	require.Nil(t, keyFuncOf(&format.MJPEG{}))
}

// FuzzKeyFrames checks that no payload makes a keyFunc fail, read beyond the end or take long.
func FuzzKeyFrames(f *testing.F) {
	for i := range videoFormats {
		f.Add(uint8(i), []byte{24, 0, 1, 0x67})
		f.Add(uint8(i), []byte{48 << 1, 1, 0, 2, 33 << 1, 1})
		f.Add(uint8(i), []byte{0x20, 2, 2 << 3, 0, 1 << 3, 0})
		f.Add(uint8(i), []byte{0x90, 0xf0, 0x80, 1, 2, 3, 0})
	}
	f.Fuzz(func(t *testing.T, i uint8, payload []byte) {
		testlimit.Run(t, len(payload), 100, func() {
			keyFuncOf(videoFormats[int(i)%len(videoFormats)])(payload[:len(payload):len(payload)])
		})
	})
}
