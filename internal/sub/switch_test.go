package sub

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/catalog"
	"sluice/internal/client/clienttest"
	"sluice/internal/cmaf"
	"sluice/internal/loc"
	"sluice/internal/pub"
	"sluice/moqt"
)

func lowRendition() (io.ReadCloser, error) { return os.Open("testdata/low.mp4") }

// narrow passes on the streams of one track at a rate, from a time until another.
type narrow struct {
	track       string
	rate        float64 // bits per second
	from, until time.Time

	mu   sync.Mutex
	free time.Time
}

func (n *narrow) tamper(track moqt.FullTrackName, _ moqt.SubgroupHeader, stream io.Reader) io.Reader {
	if track.Name != n.track {
		return stream
	}
	return &narrowStream{n, stream}
}

type narrowStream struct {
	n *narrow
	io.Reader
}

// Read implements [io.Reader].
func (s *narrowStream) Read(b []byte) (int, error) {
	read, err := s.Reader.Read(b[:min(len(b), 1200)])
	n, now := s.n, time.Now()
	n.mu.Lock()
	if n.free.Before(now) || now.After(n.until) {
		n.free = now
	}
	if now.After(n.from) && now.Before(n.until) {
		n.free = n.free.Add(time.Duration(float64(read*8) / n.rate * float64(time.Second)))
	}
	wait := n.free.Sub(now)
	n.mu.Unlock()
	time.Sleep(wait)
	return read, err
}

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

// A player leaves a rendition that does not fit the path, and comes back, where groups start: no frame is missing, none
// comes twice, and all can be decoded.
func TestPlayChangesRenditions(t *testing.T) {
	for _, packaging := range []string{catalog.CMAF, catalog.LOC} {
		t.Run(packaging, func(t *testing.T) {
			var out []byte
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				path := &narrow{track: mediaName("1", packaging), rate: 180_000, from: now.Add(4 * time.Second),
					until: now.Add(12 * time.Second)}
				r := &clienttest.Relay{Tamper: path.tamper}
				publish(t, r, pub.PublisherConfig{
					Wait: true, Loop: true, Packaging: packaging,
					Renditions: []func() (io.ReadCloser, error){lowRendition},
				})
				var result Result
				var err error
				out, result, err = play(t, r, PlayerConfig{Duration: 48 * time.Second})
				require.NoError(t, err)
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
			require.InDelta(t, 48*25, frames, 5, "rounds are a little longer than the video")
			decode(t, out, frames)
		})
	}
}

// A display that shows fewer pixels than the first rendition has gets another one: the player changes, or tells a relay
// that chooses.
func TestPlayOnSmallDisplay(t *testing.T) {
	for name, relay := range map[string]bool{"the player": false, "the relay": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{Renditions: relay}
				publish(t, r, pub.PublisherConfig{
					Wait: true, Loop: true, Renditions: []func() (io.ReadCloser, error){lowRendition},
				})
				cfg := PlayerConfig{Duration: 12 * time.Second, Width: 320, Height: 180, Rendition: RenditionRelay}
				out, _, err := play(t, r, cfg)
				require.NoError(t, err)
				widths, _ := pieces(t, out)
				if relay {
					require.Equal(t, []int{640}, widths)
					require.Equal(t, []moqt.Playback{{Width: 320, Height: 180}}, r.Playback)
				} else {
					require.Equal(t, []int{640, 160}, widths)
					require.Empty(t, r.Playback)
				}
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

func TestParameterSetsOfRenditions(t *testing.T) {
	file, err := lowRendition()
	require.NoError(t, err)
	defer file.Close()
	in, err := cmaf.NewReader(file).Init()
	require.NoError(t, err)
	sets := loc.ParameterSets(in.Tracks[0].Codec, in.Tracks[0].Config)
	require.Equal(t, byte(7), sets[4]&31)
	require.Nil(t, loc.ParameterSets("av01.0.04M.08", []byte{1}))
}
