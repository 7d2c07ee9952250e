package catalog

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const wantHang = `{"video":{"renditions":{"1.m4s":{"codec":"avc1.4d401e",` +
	`"container":{"kind":"cmaf","init":"ZnR5cDE="},"description":"0164",` +
	`"codedWidth":640,"codedHeight":360,"framerate":25,"bitrate":309691}}},` +
	`"audio":{"renditions":{"2.m4s":{"codec":"mp4a.40.2",` +
	`"container":{"kind":"cmaf","init":"ZnR5cDI="},"description":"1190",` +
	`"sampleRate":48000,"numberOfChannels":2,"bitrate":64305}}}}`

func TestHang(t *testing.T) {
	full := Catalog{Tracks: slices.Clone(broadcast.Tracks)}
	full.Tracks[0].Decoder, full.Tracks[1].Decoder = []byte{1, 0x64}, []byte{0x11, 0x90}
	b, err := full.Hang()
	require.NoError(t, err)
	require.Equal(t, wantHang, string(b))
	got, err := Parse(b)
	require.NoError(t, err)
	want := Catalog{}
	for i, track := range full.Tracks {
		// Fields that the format does not have, and one that it implies.
		track.InitTrack, track.Timescale, track.Language, track.RenderGroup, track.AltGroup = "", 0, "", 0, i+1
		track.Layers = "" // their players take one subgroup of a group
		want.Tracks = append(want.Tracks, track)
	}
	require.Equal(t, want, got)
}

// Tracks whose packaging the format does not have are left out, and so are tracks that are neither video nor audio.
func TestHangLeavesOut(t *testing.T) {
	b, err := Catalog{Tracks: []TrackEntry{
		{Name: "1", Packaging: LOC, Role: "video", Codec: "avc1.4d401e"},
		{Name: "2", Packaging: CMAF, Role: "subtitle", Codec: "wvtt"},
	}}.Hang()
	require.NoError(t, err)
	require.Equal(t, `{}`, string(b))
}

// Catalogs as @moq/publish and moq-cli write them.
func TestParseHang(t *testing.T) {
	for name, tt := range map[string]struct {
		in, wantErr string
		want        []TrackEntry
	}{
		"containers": {
			in: `{"video":{"renditions":{
				"video/hd":{"codec":"avc1.640028","container":{"kind":"legacy"},"codedWidth":1280,"codedHeight":720,
					"framerate":30,"bitrate":3000000,"optimizeForLatency":true,"description":"0164"},
				"video/sd":{"codec":"avc1.640028","codedWidth":640,"codedHeight":360,"bitrate":500000},
				"future":{"codec":"av01","container":{"kind":"next","init":{}}},
				"elsewhere":{"codec":"av01","container":{"kind":"loc"},"broadcast":"./source"}},
				"display":{"width":1280,"height":720},"rotation":0,"flip":false},
				"audio":{"renditions":{"audio":{"codec":"opus","container":{"kind":"loc"},"sampleRate":48000,
					"numberOfChannels":1,"bitrate":32000,"jitter":20}}},
				"chat":{"message":{"name":"chat"}}}`,
			want: []TrackEntry{
				{
					Name: "video/hd", Packaging: HangLegacy, Role: "video", Codec: "avc1.640028", Width: 1280,
					Height: 720, Framerate: 30, Bitrate: 3000000, AltGroup: 1, InitData: []byte{1, 0x64},
				},
				{
					Name: "video/sd", Packaging: HangLegacy, Role: "video", Codec: "avc1.640028", Width: 640,
					Height: 360, Bitrate: 500000, AltGroup: 1, InitData: []byte{},
				},
				{
					Name: "audio", Packaging: HangLOC, Role: "audio", Codec: "opus", SampleRate: 48000, Channels: "1",
					Bitrate: 32000, AltGroup: 2, InitData: []byte{},
				},
			},
		},
		"audio only":       {in: `{"audio":{"renditions":{}}}`},
		"bad description":  {in: `{"audio":{"renditions":{"a":{"description":"xyz"}}}}`, wantErr: "description of a"},
		"list of old days": {in: `{"video":[{"track":{"name":"v"},"config":{}}]}`, wantErr: "cannot unmarshal"},
		"nameless":         {in: `{"video":{"renditions":{"":{"codec":"vp8"}}}}`, wantErr: "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tt.in))
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Tracks)
		})
	}
}
