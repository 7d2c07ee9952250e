package pub

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/player/cmaf"
	"sluice/player/loc"
)

func TestParseLadder(t *testing.T) {
	ladder, err := ParseLadder([]string{"1080p", "720p:3000", "90p"})
	require.NoError(t, err)
	require.Equal(t, []Rung{{1080, 5_000_000}, {720, 3_000_000}, {90, 150_000}}, ladder)
	for name, want := range map[string]string{
		"720":     "must be an even height such as 720p",
		"721p":    "must be an even height",
		"x":       "must be an even height",
		"8p":      "height: 8: must be between 16 and 4320",
		"720p:":   `"" must be a number of kbit/s`,
		"720p:1":  "kbit/s: 1: must be between 10 and 200000",
		"720p:-1": "kbit/s: -1",
	} {
		_, err := ParseLadder([]string{name})
		require.ErrorContains(t, err, want, name)
	}
	_, err = ParseLadder(strings.Split(strings.Repeat("90p,", MaxRungs)+"90p", ","))
	require.ErrorContains(t, err, "number of renditions: 9: must be between 1 and 8")
}

// requireFFmpeg skips a test where there is no ffmpeg, which CI has.
func requireFFmpeg(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		require.Empty(t, os.Getenv("SLUICE_REQUIRE_KERNEL"), "ffmpeg is missing")
		t.Skip("needs ffmpeg")
	}
}

// The renditions of a ladder begin their groups together, of a file and of a stream.
func TestEncoder(t *testing.T) {
	t.Parallel()
	requireFFmpeg(t)
	for _, stream := range []bool{false, true} {
		e := &Encoder{Ladder: []Rung{{64, 40_000}, {32, 20_000}}, File: "../../testdata/clip.mp4"}
		if stream {
			file, err := os.Open(e.File)
			require.NoError(t, err)
			defer file.Close()
			e.File, e.Stdin = "", file
		}
		s, err := openSource(&PublisherConfig{Open: e.Open, Ladder: true})
		require.NoError(t, err)
		defer s.Close()
		require.Len(t, s.init.Tracks, 3)
		require.Equal(t, [2]int{64, 32}, [2]int{s.init.Tracks[0].Height, s.init.Tracks[1].Height})
		require.Equal(t, [2]int{40_000, 20_000}, [2]int{s.init.Tracks[0].Bitrate, s.init.Tracks[1].Bitrate})
		require.Equal(t, cmaf.Audio, s.init.Tracks[2].Kind)
		require.Equal(t, map[uint32]int{1: 1, 2: 1}, s.alternatives())
		groups := newGrouper(s.init, s.alternatives(), 0)
		began := map[uint32][]uint64{}
		var last uint64
		disposable, dependency := 0, loc.NewDependency(s.init.Tracks[0].Codec)
		for {
			c, err := s.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			group, starts, ok := groups.place(c)
			require.True(t, ok)
			if starts && c.Track < 3 {
				began[c.Track] = append(began[c.Track], c.DecodeTime)
			}
			samples, err := s.init.Samples(c.Data)
			require.NoError(t, err)
			if c.Track == 1 && dependency.Disposable(samples[0].Data) {
				disposable++
			}
			last = max(last, group)
		}
		require.False(t, groups.strayed())
		require.Equal(t, uint64(4), last, "a group for every two seconds")
		require.Len(t, began[1], 5)
		require.Equal(t, began[1], began[2])
		require.Greater(t, disposable, 100, "of 250 frames")
	}
}

func TestEncoderErrors(t *testing.T) {
	t.Run("no ffmpeg", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := (&Encoder{Ladder: []Rung{{90, 50_000}}, File: "x"}).Open()
		require.ErrorContains(t, err, "a ladder needs ffmpeg, which is not in the PATH: install it")
	})
	t.Run("no such file", func(t *testing.T) {
		requireFFmpeg(t)
		e := &Encoder{Ladder: []Rung{{90, 50_000}}, File: "nowhere.mp4"}
		_, err := openSource(&PublisherConfig{Open: e.Open, Ladder: true})
		require.ErrorContains(t, err, "ffmpeg: file:nowhere.mp4: No such file or directory")
	})
	t.Run("stopped", func(t *testing.T) {
		requireFFmpeg(t)
		e := &Encoder{Ladder: []Rung{{90, 50_000}}, File: "../../testdata/clip.mp4", Loop: true}
		in, err := e.Open()
		require.NoError(t, err)
		e.Stop()
		require.NotNil(t, e.running.cmd.ProcessState, "it was waited for")
		_, err = io.Copy(io.Discard, in)
		require.Error(t, err)
	})
}

func TestLastLine(t *testing.T) {
	var l lastLine
	require.NoError(t, l.error())
	for _, part := range []string{"first\nsec", "ond\nthi", "rd" + strings.Repeat("x", maxLine), "\n"} {
		_, _ = l.Write([]byte(part))
	}
	require.EqualError(t, l.error(), "third"+strings.Repeat("x", maxLine-5))
	_, _ = l.Write([]byte("next"))
	require.EqualError(t, l.error(), "next")
}
