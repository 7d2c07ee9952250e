package catalog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

var broadcast = Catalog{Tracks: []TrackEntry{
	{Name: "1.m4s", Packaging: "cmaf", Role: "video", InitTrack: "0.mp4", InitData: []byte("ftyp1"), RenderGroup: 1,
		Codec: "avc1.4d401e", Width: 640, Height: 360, Bitrate: 309691, Timescale: 12800, Framerate: 25,
		Layers: "1.layers.m4s"},
	{Name: "2.m4s", Packaging: "cmaf", Role: "audio", InitTrack: "0.mp4", InitData: []byte("ftyp2"), RenderGroup: 1,
		Codec: "mp4a.40.2", SampleRate: 48000, Channels: "2", Bitrate: 64305, Timescale: 48000, Language: "eng"},
}}

const wantCommon = `{
  "version": 1,
  "streamingFormat": 1,
  "streamingFormatVersion": "0.2",
  "supportsDeltaUpdates": false,
  "commonTrackFields": {
    "namespace": "/live/demo",
    "packaging": "cmaf",
    "renderGroup": 1
  },
  "tracks": [
    {
      "name": "1.m4s",
      "packaging": "cmaf",
      "isLive": true,
      "role": "video",
      "renderGroup": 1,
      "codec": "avc1.4d401e",
      "framerate": 25,
      "timescale": 12800,
      "bitrate": 309691,
      "width": 640,
      "height": 360,
      "x-layers": "1.layers.m4s",
      "initTrack": "0.mp4",
      "selectionParams": {
        "codec": "avc1.4d401e",
        "framerate": 25,
        "bitrate": 309691,
        "width": 640,
        "height": 360
      }
    },
    {
      "name": "2.m4s",
      "packaging": "cmaf",
      "isLive": true,
      "role": "audio",
      "renderGroup": 1,
      "codec": "mp4a.40.2",
      "timescale": 48000,
      "bitrate": 64305,
      "samplerate": 48000,
      "channelConfig": "2",
      "lang": "eng",
      "initTrack": "0.mp4",
      "selectionParams": {
        "codec": "mp4a.40.2",
        "bitrate": 64305,
        "samplerate": 48000,
        "channelConfig": "2",
        "lang": "eng"
      }
    }
  ]
}`

const wantMSF = `{"version":"draft-01","tracks":[` +
	`{"name":"1.m4s","packaging":"cmaf","isLive":true,"role":"video","renderGroup":1,"initRef":"init-1.m4s",` +
	`"initData":"ZnR5cDE=","codec":"avc1.4d401e","framerate":25,"timescale":12800,"bitrate":309691,` +
	`"width":640,"height":360,"x-layers":"1.layers.m4s"},` +
	`{"name":"2.m4s","packaging":"cmaf","isLive":true,"role":"audio","renderGroup":1,"initRef":"init-2.m4s",` +
	`"initData":"ZnR5cDI=","codec":"mp4a.40.2","timescale":48000,"bitrate":64305,"samplerate":48000,` +
	`"channelConfig":"2","lang":"eng"}],"initDataList":[{"id":"init-1.m4s","type":"inline","data":"ZnR5cDE="},` +
	`{"id":"init-2.m4s","type":"inline","data":"ZnR5cDI="}]}`

func TestCommon(t *testing.T) {
	b, err := broadcast.Common("/live/demo")
	require.NoError(t, err)
	require.Equal(t, wantCommon, string(b))
	got, err := Parse(b)
	require.NoError(t, err)
	want := Catalog{}
	for _, track := range broadcast.Tracks {
		track.InitData, track.Namespace = nil, "live/demo" // the format has an init track
		want.Tracks = append(want.Tracks, track)
	}
	require.Equal(t, want, got)
}

func TestMSF(t *testing.T) {
	b, err := broadcast.MSF()
	require.NoError(t, err)
	require.Equal(t, wantMSF, string(b))
	got, err := Parse(b)
	require.NoError(t, err)
	want := Catalog{}
	for _, track := range broadcast.Tracks {
		track.InitTrack = ""
		want.Tracks = append(want.Tracks, track)
	}
	require.Equal(t, want, got)
}

// Catalogs as other publishers write them.
func TestParse(t *testing.T) {
	for name, tt := range map[string]struct {
		in, wantErr string
		want        []TrackEntry
	}{
		"moq-pub": {
			in: `{"version":1,"streamingFormat":1,"streamingFormatVersion":"0.2","supportsDeltaUpdates":true,
				"commonTrackFields":{"namespace":"/bbb","packaging":"cmaf","renderGroup":1},
				"tracks":[{"name":"1.m4s","initTrack":"0.mp4",
					"selectionParams":{"codec":"avc1.640028","width":1280,"height":720}},
				{"name":"2.m4s","initTrack":"0.mp4",
					"selectionParams":{"codec":"mp4a.40.2","samplerate":44100,"channelConfig":"2"}}]}`,
			want: []TrackEntry{
				{
					Name: "1.m4s", Namespace: "bbb", Packaging: "cmaf", RenderGroup: 1, InitTrack: "0.mp4",
					Role: "video", Codec: "avc1.640028", Width: 1280, Height: 720,
				},
				{
					Name: "2.m4s", Namespace: "bbb", Packaging: "cmaf", RenderGroup: 1, InitTrack: "0.mp4",
					Role: "audio", Codec: "mp4a.40.2", SampleRate: 44100, Channels: "2",
				},
			},
		},
		"MediaMTX, MSF draft 00 in .catalog": {
			in: `{"version":1,"tracks":[{"name":"0","packaging":"loc","isLive":true,"codec":"avc3.640028"},
				{"name":"1","packaging":"loc","isLive":true,"codec":"mp4a.40.2","samplerate":48000,"channels":2,
				"initData":"EZA="}]}`,
			want: []TrackEntry{
				{Name: "0", Packaging: "loc", Role: "video", Codec: "avc3.640028", Timescale: 90000},
				{
					Name: "1", Packaging: "loc", Role: "audio", Codec: "mp4a.40.2", SampleRate: 48000, Channels: "2",
					InitData: []byte{0x11, 0x90}, Timescale: 48000,
				},
			},
		},
		"LOC of somebody else": {
			in:   `{"version":1,"tracks":[{"name":"0","packaging":"loc","role":"video","codec":"avc3.640028"}]}`,
			want: []TrackEntry{{Name: "0", Packaging: "loc", Role: "video", Codec: "avc3.640028"}},
		},
		"selectionParams before the fields of MSF 00": {
			in: `{"version":1,"streamingFormat":1,"commonTrackFields":{"packaging":"cmaf","altGroup":3},
				"tracks":[{"name":"v","packaging":"loc","codec":"avc3.1","width":2,"lang":"de",
				"selectionParams":{"codec":"avc1.2","width":4,"height":6}}]}`,
			want: []TrackEntry{{
				Name: "v", Packaging: "loc", Role: "video", Codec: "avc1.2", Width: 4, Height: 6, Language: "de",
				AltGroup: 3,
			}},
		},
		"MSF draft 00": {
			in: `{"version":1,"generatedAt":1746104606044,"tracks":[{"name":"v","packaging":"cmaf","isLive":true,
				"role":"video","codec":"avc1.640028","initData":"AAAA","x-custom":{}}]}`,
			want: []TrackEntry{
				{Name: "v", Packaging: "cmaf", Role: "video", Codec: "avc1.640028", InitData: []byte{0, 0, 0}},
			},
		},
		"MSF draft 01": {
			in: `{"version":"draft-01","tracks":[
				{"name":"a","packaging":"cmaf","isLive":true,"codec":"opus","initRef":"x"},
				{"name":"b","packaging":"cmaf","isLive":true,"codec":"hvc1.1","initRef":"property"}],
				"initDataList":[{"id":"x","type":"inline","data":"AAAA"},
				{"id":"property","type":"track-property","data":"0x4001"}]}`,
			want: []TrackEntry{
				{Name: "a", Packaging: "cmaf", Role: "audio", Codec: "opus", InitData: []byte{0, 0, 0}},
				{Name: "b", Packaging: "cmaf", Role: "video", Codec: "hvc1.1"},
			},
		},
		"no tracks":       {in: `{"version":"draft-01","isComplete":true,"tracks":[]}`},
		"delta of MSF 01": {in: `{"deltaUpdate":[{"op":"add","tracks":[]}]}`, wantErr: "delta update"},
		"delta of MSF 00": {in: `{"version":1,"deltaUpdate":true,"addTracks":[]}`, wantErr: "delta update"},
		"JSON Patch":      {in: `[{"op":"add","path":"/tracks/-","value":{}}]`, wantErr: "delta update"},
		"empty":           {in: ``, wantErr: "unexpected end of JSON"},
		"not JSON":        {in: `hello`, wantErr: "invalid character"},
		"no version":      {in: `{"tracks":[]}`, wantErr: "no version"},
		"future":          {in: `{"version":2,"tracks":[]}`, wantErr: "version 2 of MSF is not known"},
		"future common": {
			in:      `{"version":2,"streamingFormat":1,"tracks":[]}`,
			wantErr: "version 2 of the common catalog format is not known",
		},
		"nameless track": {in: `{"version":1,"tracks":[{"codec":"opus"}]}`, wantErr: "no name"},
		"wrong type":     {in: `{"version":1,"tracks":{}}`, wantErr: "cannot unmarshal"},
		"too many tracks": {
			in:      `{"version":1,"tracks":[` + strings.Repeat(`{"name":"a"},`, 256) + `{"name":"a"}]}`,
			wantErr: "more than 256 tracks",
		},
		"too large": {in: strings.Repeat(" ", MaxSize) + `{}`, wantErr: "the limit is"},
		"too many values": {
			in:      `{"version":1,"tracks":[` + strings.Repeat("0,", MaxSize/2-20) + `0]}`,
			wantErr: "values, the limit is",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got Catalog
			var err error
			testlimit.Run(t, len(tt.in), 100, func() { got, err = Parse([]byte(tt.in)) })
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Tracks)
		})
	}
	_, err := Parse([]byte(`{"deltaUpdate":[]}`))
	require.ErrorIs(t, err, ErrDelta)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(wantCommon))
	f.Add([]byte(wantMSF))
	f.Add([]byte(wantHang))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Catalog
		var err error
		testlimit.Run(t, len(b), 1000, func() { c, err = Parse(b) })
		if err != nil {
			return
		}
		again, err := c.MSF()
		require.NoError(t, err)
		parsed, err := Parse(again)
		require.NoError(t, err)
		more, err := parsed.MSF()
		require.NoError(t, err)
		require.True(t, bytes.Equal(again, more))
	})
}
