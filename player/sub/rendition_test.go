package sub

import (
	"bytes"
	"io"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/player/catalog"
	"sluice/player/client/clienttest"
	"sluice/player/pub"
)

func TestSelectTracks(t *testing.T) {
	ladder := catalog.Catalog{Tracks: []catalog.TrackEntry{
		{Name: "v720", Role: "video", AltGroup: 1, Height: 720, Bitrate: 3000},
		{Name: "a", Role: "audio", AltGroup: 2, Bitrate: 128},
		{Name: "v360", Role: "video", AltGroup: 1, Height: 360, Bitrate: 500},
		{Name: "v1080", Role: "video", AltGroup: 1, Height: 1080, Bitrate: 6000},
		{Name: "a32", Role: "audio", AltGroup: 2, Bitrate: 32},
		{Name: "chat", Role: "chat", Packaging: "eventtimeline"},
	}}
	for name, tt := range map[string]struct {
		cfg     PlayerConfig
		want    []string
		wantErr string
	}{
		"default":            {want: []string{"v720", "a"}},
		"best":               {cfg: PlayerConfig{Rendition: RenditionBest}, want: []string{"v1080", "a"}},
		"least":              {cfg: PlayerConfig{Rendition: RenditionLeast}, want: []string{"v360", "a32"}},
		"height":             {cfg: PlayerConfig{Rendition: "360p"}, want: []string{"v360", "a"}},
		"name":               {cfg: PlayerConfig{Rendition: "a32"}, want: []string{"v720", "a32"}},
		"bitrate":            {cfg: PlayerConfig{MaxBitrate: 4000}, want: []string{"v720", "a"}},
		"less bitrate":       {cfg: PlayerConfig{MaxBitrate: 600}, want: []string{"v360", "a"}},
		"too little bitrate": {cfg: PlayerConfig{MaxBitrate: 10}, want: []string{"v360", "a32"}},
		"best within": {
			cfg: PlayerConfig{MaxBitrate: 4000, Rendition: RenditionBest}, want: []string{"v720", "a"},
		},
		"role":                 {cfg: PlayerConfig{Tracks: []string{"video"}}, want: []string{"v720"}},
		"names are all played": {cfg: PlayerConfig{Tracks: []string{"v720", "v360"}}, want: []string{"v720", "v360"}},
		"unknown rendition": {
			cfg: PlayerConfig{Rendition: "480p"}, wantErr: `no rendition "480p"; the catalog has v720`,
		},
		"unknown track":          {cfg: PlayerConfig{Tracks: []string{"x"}}, wantErr: `no track "x" to play`},
		"packaging of something": {cfg: PlayerConfig{Tracks: []string{"chat"}}, wantErr: `no track "chat" to play`},
		"the relay's within": {
			cfg: PlayerConfig{Rendition: RenditionRelay, MaxBitrate: 4000}, want: []string{"v720", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tracks, err := selectTracks(ladder, &tt.cfg)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, track := range tracks {
				got = append(got, track.Name)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// The relay chooses among renditions that can follow each other.
func TestSelectOthers(t *testing.T) {
	track := func(name string, bitrate int, codec string) catalog.TrackEntry {
		return catalog.TrackEntry{Name: name, Role: "video", AltGroup: 1, Bitrate: bitrate, Codec: codec}
	}
	ladder := catalog.Catalog{Tracks: []catalog.TrackEntry{
		track("first", 3000, "avc1.1"), track("fits", 500, "avc1.2"), track("large", 9000, "avc1.1"),
		track("unknown", 0, "avc1.1"), track("hevc", 600, "hvc1.1"),
	}}
	for name, tt := range map[string]struct {
		cfg  PlayerConfig
		want []string
	}{
		"default":     {want: []string{"fits", "large"}},
		"relay":       {cfg: PlayerConfig{Rendition: RenditionRelay}, want: []string{"fits", "large"}},
		"max bitrate": {cfg: PlayerConfig{MaxBitrate: 4000}, want: []string{"fits"}},
		"one":         {cfg: PlayerConfig{Rendition: "first"}},
		"best":        {cfg: PlayerConfig{Rendition: RenditionBest}},
		"verify":      {cfg: PlayerConfig{Verify: bytes.NewReader(nil)}},
	} {
		tracks, err := selectTracks(ladder, &tt.cfg)
		require.NoError(t, err, name)
		require.Len(t, tracks, 1, name)
		var got []string
		for _, o := range tracks[0].others {
			got = append(got, o.Name)
		}
		require.Equal(t, tt.want, got, name)
	}
}

// Every format of catalog tells which tracks are renditions of one content.
func TestPlayRendition(t *testing.T) {
	small, err := os.ReadFile("../loc/testdata/avc.mp4")
	require.NoError(t, err)
	for _, format := range catalog.Names {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				done := publish(t, r, pub.PublisherConfig{Wait: true, Renditions: []func() (io.ReadCloser, error){
					func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(small)), nil },
				}})
				got, result, err := play(t, r, PlayerConfig{Rendition: "64p", Catalogs: []string{format}})
				require.NoError(t, err)
				require.Len(t, result.Tracks, 2)
				frames := framesOf(t, got)
				want := framesOf(t, small)
				for codec, list := range want {
					if codec[:4] == "avc1" {
						require.Equal(t, list, frames[codec], "the video of the second file")
					}
				}
				require.NoError(t, <-done)
			})
		})
	}
}
