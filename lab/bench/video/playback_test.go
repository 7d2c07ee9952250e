package video

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/playback"
)

var layered = Mock{Rate: 2e6, FrameRate: 25, Group: 50, Key: 5, Layers: true}

// never is the delay of a frame that does not arrive.
const never = time.Duration(-1)

// arrivals returns the arrivals of frames [0, end) of layered video, delay after their publication.
func arrivals(end uint64, delay func(n uint64) time.Duration) (all []Arrival) {
	const begin = int64(1_700_000_000e9)
	for n := range end {
		f := layered.Frame(n)
		published := begin + int64(f.Due)
		if d := delay(n); d != never {
			all = append(all, Arrival{
				Group: f.Group, Object: f.Object, Published: published, Arrived: published + int64(d),
				Bytes: layered.Size(n),
			})
		}
	}
	return all
}

func TestPlayEverything(t *testing.T) {
	p := Play(layered, arrivals(150, func(uint64) time.Duration { return 30 * time.Millisecond }), nil, 25, 150, nil)
	require.Equal(t, 1., p.Playable)
	require.Equal(t, 1., p.Keys)
	require.Zero(t, p.Stalls)
	require.InDelta(t, 2, p.Goodput, .2, "2.5 groups have 2 of 3 key frames")
	require.Len(t, p.Ages, 125)
	require.Equal(t, 30., p.Ages[0])
	require.Len(t, p.GoodputOverTime.Value, 10)
	require.Equal(t, []float64{0, .5}, p.GoodputOverTime.Time[:2])
}

func TestPlayWithLoss(t *testing.T) {
	inLayer := func(layer int) func(uint64) bool {
		return func(n uint64) bool { return layered.Frame(n).Layer == layer }
	}
	for name, c := range map[string]struct {
		affected func(n uint64) bool
		delay    time.Duration // of these frames; the others arrive at once
		playable float64
		keys     float64
		stalls   int
		stalled  time.Duration
	}{
		"nothing of the top layer": {inLayer(LayerTop), never, .5, 1, 0, 0},
		"the top layer late":       {inLayer(LayerTop), 2 * playback.Playout, .5, 1, 0, 0},
		"key frames alone": {
			func(n uint64) bool { return !inLayer(LayerKey)(n) }, never, .02, 1, 2, 98 * 40 * time.Millisecond,
		},
		"no key frame in the second group": {
			func(n uint64) bool { return n == 50 }, never, .5, .5, 1, 50 * 40 * time.Millisecond,
		},
		"a base frame late": {
			func(n uint64) bool { return n == 62 }, 2 * playback.Playout, .62, 1, 1, 38 * 40 * time.Millisecond,
		},
	} {
		p := Play(layered, arrivals(100, func(n uint64) time.Duration {
			if c.affected(n) {
				return c.delay
			}
			return 0
		}), nil, 0, 100, nil)
		require.InDelta(t, c.playable, p.Playable, 1e-9, name)
		require.Equal(t, c.keys, p.Keys, name)
		require.Equal(t, c.stalls, p.Stalls, name)
		require.Equal(t, c.stalled, p.Stalled, name)
	}
	nothing := Play(layered, nil, nil, 0, 100, nil)
	require.Zero(t, nothing.Playable+nothing.Keys+nothing.Goodput)
	require.Equal(t, 4*time.Second, nothing.Stalled)
	require.Equal(t, playback.Score{}, Play(layered, nil, nil, 100, 100, nil))
}

// Groups are of one rendition each. The second group has not arrived, and the third is of a rendition that is too low.
func TestPlayLadder(t *testing.T) {
	all := arrivals(200, func(n uint64) time.Duration {
		if n/50 == 1 {
			return never
		}
		return 0
	})
	for i := range all {
		all[i].Rendition = []int{2, 2, 0, 1}[all[i].Group]
	}
	p := Play(layered, all, nil, 0, 200, func(time.Duration) int { return 1 })
	require.True(t, p.Settled)
	require.Equal(t, .5, p.Fit)
	require.Equal(t, 2, p.Switches)
	late := Play(layered, all, nil, 100, 200, func(due time.Duration) int {
		if due < 2*time.Second {
			return playback.Unsettled
		}
		return 1
	})
	require.Equal(t, [2]float64{1, 0}, [2]float64{late.Fit, float64(late.Switches)}, "times count from the first frame")
}

func TestDueBetween(t *testing.T) {
	first, end := DueBetween(layered, time.Second, 3*time.Second)
	require.EqualValues(t, [2]uint64{25, 75}, [2]uint64{first, end})
	first, end = DueBetween(layered, 1010*time.Millisecond, 1050*time.Millisecond)
	require.EqualValues(t, [2]uint64{26, 27}, [2]uint64{first, end})
}

// TestPlayAudio counts the audio of the same period.
func TestPlayAudio(t *testing.T) {
	everything := arrivals(100, func(uint64) time.Duration { return 0 })
	var audio []Arrival
	for n := range uint64(200) {
		f := Audio.Frame(n)
		at := int64(1_700_000_000e9) + int64(f.Due)
		late := int64(0)
		if n >= 100 && n < 120 {
			late = int64(2 * playback.Playout)
		}
		audio = append(audio, Arrival{
			Group: f.Group, Object: f.Object, Published: at, Arrived: at + late, Bytes: Audio.Size(n),
		})
	}
	p := Play(layered, everything, audio, 25, 100, nil)
	require.Equal(t, [2]float64{1, 1}, [2]float64{p.Playable, p.Keys})
	require.True(t, p.HasAudio)
	require.InDelta(t, 1-20/140., p.Audio, .002, "3 s from 1 s on have 140 or 141 frames")
	require.Len(t, p.Ages, 75, "ages are those of pictures")
	require.False(t, Play(layered, everything, nil, 25, 100, nil).HasAudio)
	p = Play(layered, everything, []Arrival{}, 25, 100, nil)
	require.True(t, p.HasAudio)
	require.Zero(t, p.Audio, "none of it has arrived")
}
