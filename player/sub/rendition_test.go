package sub

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/player/catalog"
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
