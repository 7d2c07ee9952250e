package rendition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPlayback has players that report their playback, and a Chooser's choices in a minute. Each path is also tried
// with a player that says nothing, which has to be the same as no report.
func TestPlayback(t *testing.T) {
	buffered := func(d time.Duration) func(time.Duration, int) Playback {
		return func(time.Duration, int) Playback { return Playback{Buffered: &d} }
	}
	shows := func(pixels uint64) func(time.Duration, int) Playback {
		return func(time.Duration, int) Playback { return Playback{Pixels: pixels} }
	}
	dropped := uint64(0)
	var delayed []int // the renditions that have come, in each second
	wide := constant(20e6)
	// Two seconds of half the rate make media a second late, which then catches up.
	dip := func(at time.Duration) float64 {
		if at > 20*time.Second && at < 22*time.Second {
			return 2.5e6
		}
		return 8e6
	}
	// A second of a little less than the rate make media less than half a second late.
	shortDip := func(at time.Duration) float64 {
		if at >= 20*time.Second && at < 21*time.Second {
			return 4.1e6
		}
		return 20e6
	}
	const fullHD, hd, sd = 1920 * 1080, 1280 * 720, 640 * 360
	for name, tt := range map[string]struct {
		rate    func(time.Duration) float64
		report  func(time.Duration, int) Playback
		silent  []int // the renditions in the order in which they are played, without a report
		reports []int // and with reports
		why     Reason
	}{
		"a full buffer waits": {
			rate: dip, report: buffered(4 * time.Second), silent: []int{2, 0, 1, 2}, reports: []int{2},
		},
		"an absurd buffer waits no longer than a large one": {
			rate: constant(1.2e6), report: buffered(1 << 62), silent: []int{2, 0, 1, 0},
			reports: []int{2, 0, 1, 0}, why: Late,
		},
		"an empty buffer does not": {
			rate:   shortDip,
			report: buffered(0), silent: []int{2}, reports: []int{2, 1}, why: Late,
		},
		"a small display": {
			rate: wide, report: shows(hd), silent: []int{2}, reports: []int{2, 1}, why: Display,
		},
		"a tiny display gets the least": {
			rate: wide, report: shows(1), silent: []int{2}, reports: []int{2, 0}, why: Display,
		},
		"a display that grows": {
			rate: wide, report: func(at time.Duration, _ int) Playback {
				if at < 20*time.Second {
					return Playback{Pixels: sd}
				}
				return Playback{Pixels: fullHD}
			},
			silent: []int{2}, reports: []int{2, 0, 1, 2}, why: Better,
		},
		"a decoder that is too slow for all but the least": {
			rate: wide, report: func(_ time.Duration, playing int) Playback {
				if playing > 0 {
					dropped += 20
				}
				return Playback{Dropped: dropped}
			},
			silent: []int{2}, reports: []int{2, 1, 0, 1, 0}, why: Decoder,
		},
		"a decoder that is far too slow, and shows with a delay": {
			rate: wide, report: func(at time.Duration, playing int) Playback {
				delayed = append(delayed, playing)
				if i := len(delayed) - 5; at >= 5*time.Second && delayed[i] == 2 {
					dropped += 20
				}
				return Playback{Buffered: new(4 * time.Second), Dropped: dropped}
			},
			silent: []int{2}, reports: []int{2, 1, 2, 1}, why: Decoder,
		},
		"a decoder that drops now and then": {
			rate: wide, report: func(at time.Duration, _ int) Playback {
				return Playback{Dropped: uint64(at / time.Second)}
			},
			silent: []int{2}, reports: []int{2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(report func(time.Duration, int) Playback) *testPath {
				p := newTestPath(tt.rate, []Rendition{{700_000, sd}, {2_800_000, hd}, {5_000_000, fullHD}}, 2)
				p.report = report
				p.run(time.Minute)
				return p
			}
			silent := play(func(time.Duration, int) Playback { return Playback{} })
			require.Equal(t, play(nil).played, silent.played)
			require.Equal(t, tt.silent, inOrder(silent.played))
			p := play(tt.report)
			require.Equal(t, tt.reports, inOrder(p.played))
			require.Equal(t, tt.why, p.chooser.Reason())
		})
	}
}

// TestDropped has players that drop frames evenly, and report that now and then.
func TestDropped(t *testing.T) {
	for _, interval := range []time.Duration{
		100 * time.Millisecond, time.Second, 1001 * time.Millisecond, 2500 * time.Millisecond, 10 * time.Second,
	} {
		for perSecond, want := range map[float64]bool{0: false, 4: false, 9: true, 24: true} {
			var p player
			slow := 0
			for i := range 60 {
				at := time.Duration(i) * interval
				p.report(start.Add(at), Playback{Dropped: 1000 + uint64(perSecond*at.Seconds())})
				if p.slow {
					slow++
				}
			}
			require.Equal(t, want, slow > 0, "%v a second, reported each %v", perSecond, interval)
		}
	}
}

// Players drop as many frames as are too many, or one less.
func TestDropLimit(t *testing.T) {
	var p player
	p.report(start, Playback{})
	p.report(start.Add(dropWindow), Playback{Dropped: dropLimit - 1})
	require.False(t, p.slow)
	p.report(start.Add(dropWindow), Playback{Dropped: dropLimit})
	require.True(t, p.slow)
	require.True(t, (&player{Playback: Playback{Buffered: new(emptyBuffer)}}).isEmpty())
}

// inOrder returns the renditions in the order in which they were played.
func inOrder(groups []int) (list []int) {
	for i, r := range groups {
		if i == 0 || r != groups[i-1] {
			list = append(list, r)
		}
	}
	return list
}
