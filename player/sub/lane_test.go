package sub

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/client/clienttest"
	"sluice/player/cmaf"
	"sluice/player/pub"
)

func lowRendition() (io.ReadCloser, error) { return os.Open("testdata/low.mp4") }

// pieces cuts the output at its init segments, and returns the samples of the video of each.
func pieces(t *testing.T, out []byte) (widths []int, samples [][]cmaf.Sample) {
	t.Helper()
	var in *cmaf.Init
	for len(out) > 0 {
		typ, size := string(out[4:8]), int(out[0])<<24|int(out[1])<<16|int(out[2])<<8|int(out[3])
		switch typ {
		case "ftyp":
			next := size + (int(out[size])<<24 | int(out[size+1])<<16 | int(out[size+2])<<8 | int(out[size+3]))
			var err error
			in, err = cmaf.ParseInit(out[:next])
			require.NoError(t, err)
			widths, samples, size = append(widths, in.Track(1).Width), append(samples, nil), next
		case "moof":
			size += int(out[size])<<24 | int(out[size+1])<<16 | int(out[size+2])<<8 | int(out[size+3])
			chunk, err := in.ParseChunk(out[:size])
			require.NoError(t, err)
			if chunk.Track == 1 {
				s, err := in.Samples(out[:size])
				require.NoError(t, err)
				last := len(samples) - 1
				samples[last] = append(samples[last], s...)
			}
		default:
			t.Fatalf("box %q", typ)
		}
		out = out[size:]
	}
	return widths, samples
}

// The relay changes to another rendition, and back, where groups start: no frame is missing, none comes twice, and all
// can be decoded.
func TestPlayChangesRenditions(t *testing.T) {
	for _, packaging := range []string{catalog.CMAF, catalog.LOC} {
		t.Run(packaging, func(t *testing.T) {
			var out []byte
			synctest.Test(t, func(t *testing.T) {
				high := mediaName("1", packaging)
				r := &clienttest.Relay{Serves: func(track string, group uint64) bool {
					return (track == high) == (group < 3 || group >= 6)
				}}
				publish(t, r, pub.PublisherConfig{
					Wait: true, Loop: true, Packaging: packaging,
					Renditions: []func() (io.ReadCloser, error){lowRendition},
				})
				var result Result
				out, result = play(t, r, PlayerConfig{Duration: 24 * time.Second})
				require.Zero(t, result.Tracks[0].Gaps, "%+v", result.Tracks[0])
				require.Equal(t, 2, result.Tracks[0].Switches)
			})
			widths, samples := pieces(t, out)
			require.Equal(t, []int{640, 160, 640}, widths)
			next, frames := samples[0][0].DecodeTime, 0
			for i, piece := range samples {
				require.True(t, piece[0].Sync, "it starts with a key frame")
				for _, s := range piece {
					// Rounds of the loop are as long as their audio, and LOC has no durations.
					require.InDelta(t, next, s.DecodeTime, 511, "less than a frame")
					next = s.DecodeTime + 512
					frames++
					if s.Sync && i > 0 {
						require.Equal(t, byte(7), s.Data[4]&31, "parameter sets come first")
					}
				}
			}
			require.InDelta(t, 24*25, frames, 5, "rounds are a little longer than the video")
			decode(t, out, frames)
		})
	}
}

// A relay that chooses is told the size of the display; another one sends the first rendition.
func TestPlayOnSmallDisplay(t *testing.T) {
	for name, want := range map[string][]moqt.Playback{"cannot choose": nil, "chooses": {{Width: 320, Height: 180}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				if want != nil {
					r.Serves = func(track string, _ uint64) bool { return track == mediaName("1", catalog.CMAF) }
				}
				publish(t, r, pub.PublisherConfig{
					Wait: true, Loop: true, Renditions: []func() (io.ReadCloser, error){lowRendition},
				})
				out, _ := play(t, r, PlayerConfig{Duration: 6 * time.Second, Width: 320, Height: 180})
				widths, _ := pieces(t, out)
				require.Equal(t, []int{640}, widths)
				require.Equal(t, want, r.Playback)
			})
		})
	}
}

func mediaName(id, packaging string) string {
	if packaging == catalog.LOC {
		return id + ".loc"
	}
	return id + ".layers.m4s"
}

// decode has ffmpeg decode all pictures, if it is there.
func decode(t *testing.T, out []byte, frames int) {
	t.Helper()
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		return
	}
	file := filepath.Join(t.TempDir(), "out.mp4")
	require.NoError(t, os.WriteFile(file, out, 0o600))
	cmd := exec.CommandContext(t.Context(), ffmpeg, "-v", "error", "-i", file, "-map", "0:v", "-f", "framecrc", "-")
	var sums, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &sums, &errors
	require.NoError(t, cmd.Run(), errors.String())
	require.Empty(t, errors.String())
	require.Equal(t, frames, bytes.Count(sums.Bytes(), []byte("\n0,")))
}
