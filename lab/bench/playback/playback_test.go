package playback

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

// broadcast is a key frame and pictures that each need the last, with an audio frame beside each, 100 ms apart.
func broadcast(pictures int) (frames []Frame) {
	for i := range pictures {
		due := time.Duration(i) * 100 * time.Millisecond
		f := Frame{Due: due, Needs: 2*i - 2, Bytes: 1000, Arrived: true, Published: due, At: due + 30*time.Millisecond}
		audio := f
		audio.Kind, audio.Needs = Audio, -1
		if i == 0 {
			f.Kind, f.Needs = Key, -1
		}
		frames = append(frames, f, audio)
	}
	return frames
}

func TestAudioIsNoPicture(t *testing.T) {
	frames := broadcast(10)
	s := Play(frames, time.Second)
	require.Equal(t, [3]float64{1, 1, 1}, [3]float64{s.Playable, s.Keys, s.Audio})
	require.Len(t, s.Ages, 10)
	require.InDelta(t, .16, s.Goodput, 1e-9)

	frames[7].At = frames[7].Due + Playout + 1 // audio, late
	frames[9].Arrived = false
	s = Play(frames, time.Second)
	require.Equal(t, [3]float64{1, 1, .8}, [3]float64{s.Playable, s.Keys, s.Audio})
	require.Zero(t, s.Stalls)

	frames[10].Arrived = false // a picture: those after it need it
	s = Play(frames, time.Second)
	require.Equal(t, [3]float64{.5, 1, .8}, [3]float64{s.Playable, s.Keys, s.Audio})
	require.Equal(t, 1, s.Stalls)
	require.Equal(t, 500*time.Millisecond, s.Stalled)
	require.Len(t, s.Ages, 9)
}

// A picture is of no use before what it needs has arrived, however early it comes itself.
func TestUsable(t *testing.T) {
	frames := broadcast(4)
	frames[2].At = frames[2].Due + 150*time.Millisecond // of 100 ms
	s := Play(frames, time.Second)
	require.Equal(t, []float64{30, 30, 30, 150}, s.Ages)
	require.Equal(t, []float64{30, 30, 50, 150}, s.Usable)
	frames[2].Arrived = false
	require.Equal(t, []float64{30}, Play(frames, time.Second).Usable, "the others need it")
}

// Pictures count if they are shown at the rendition that fits, or a better one, while it is known which one fits.
func TestRenditions(t *testing.T) {
	s := Play(broadcast(10), time.Second)
	require.False(t, s.Settled, "there is only one")

	frames := broadcast(10)
	for i := range frames {
		frames[i].Fitting = 1
		if i < 8 {
			frames[i].Fitting = Unsettled
		}
		if i < 4 || i >= 12 {
			frames[i].Rendition = 1
		}
	}
	frames[18].Arrived = false
	s = Play(frames, time.Second)
	require.True(t, s.Settled)
	require.InDelta(t, 3./6, s.Fit, 1e-9, "two are of the lower one, and one has not arrived")
	require.Equal(t, 1, s.Switches, "the other one was before")
}

func TestMetricsAreDescribed(t *testing.T) {
	s := Play(broadcast(200), 20*time.Second)
	r := result.Run{Metrics: make(map[string]float64), Series: make(map[string]result.Series)}
	s.Settled = true
	s.AddTo(&r)
	require.Equal(t, 100., r.Metrics["audio"])
	require.Equal(t, 30., r.Metrics["age.p90"])
	for name := range Metrics {
		if name != Age {
			require.Contains(t, r.Metrics, name)
		}
	}
	r.Metrics = make(map[string]float64)
	s = Play([]Frame{{Kind: Key, Needs: -1}}, time.Second)
	s.AddTo(&r)
	require.NotContains(t, r.Metrics, "audio", "there is none")
}
