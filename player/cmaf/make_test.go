package cmaf

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A chunk that was made anew has the same samples, also for a reader that knows other defaults.
func TestMakeChunk(t *testing.T) {
	for _, name := range []string{"../../testdata/clip.mp4", "../loc/testdata/avc.mp4"} {
		file, err := os.Open(name)
		require.NoError(t, err)
		defer file.Close()
		r := NewReader(file)
		in, err := r.Init()
		require.NoError(t, err)
		other := *in
		other.Tracks = []TrackInfo{{ID: 9, defaults: defaults{duration: 1, size: 2, flags: 3}}}
		for {
			c, err := r.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			want, err := in.Samples(c.Data)
			require.NoError(t, err)
			got, err := other.Samples(Chunk{Track: 8, Data: MakeChunk(8, 5, want)}.WithTrack(9).Data)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}
