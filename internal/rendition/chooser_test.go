package rendition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testPath is a simulated path to a player: a queue of one rate, and one publisher with renditions of groups of two
// seconds. Time is simulated, too.
type testPath struct {
	rate func(at time.Duration) float64 // bits per second

	report func(at time.Duration, playing int) Playback // of the player; nil: none comes

	chooser  *Chooser
	now      time.Time
	free     time.Time   // when the queue is empty
	coming   []arrival   // in order
	played   []int       // rendition of each group
	switches []time.Time // when another one was chosen
}

type arrival struct {
	at        time.Time
	rendition int
}

const (
	frameTime   = 40 * time.Millisecond
	groupFrames = 50
	pathRTT     = 40 * time.Millisecond
)

var start = time.Unix(1_000_000, 0)

func newTestPath(rate func(time.Duration) float64, renditions []Rendition, first int) *testPath {
	p := &testPath{rate: rate, free: start}
	p.chooser = NewChooser(p, renditions, first)
	return p
}

// Delay implements [Path].
func (p *testPath) Delay(now time.Time) time.Duration { return max(p.free.Sub(now), 0) }

// Dropping implements [Path].
func (p *testPath) Dropping(time.Time) bool { return false }

// Rate implements [Path].
func (p *testPath) Rate(now time.Time) float64 { return p.rate(now.Sub(start)) }

// Burst implements [Path].
func (p *testPath) Burst() float64 { return p.Rate(p.now) }

// Last implements [Path].
func (p *testPath) Last() time.Time { return p.now }

// run plays for a while.
func (p *testPath) run(d time.Duration) {
	current := p.chooser.current
	for frame := 0; frameTime*time.Duration(frame) < d; frame++ {
		media := time.Duration(frame) * frameTime
		p.now = start.Add(media)
		if frame%groupFrames == 0 {
			current = p.chooser.current
			p.played = append(p.played, current)
		}
		p.send(media, current, frame)
		for ; len(p.coming) > 0 && !p.coming[0].at.After(p.now); p.coming = p.coming[1:] {
			p.chooser.Began(p.coming[0].at, p.coming[0].rendition)
		}
		if p.report != nil && media%time.Second == 0 {
			p.chooser.Report(p.now, p.report(media, current))
		}
		if media%Interval == 0 {
			was := p.chooser.current
			if p.chooser.Choose(p.now, pathRTT) != was {
				p.switches = append(p.switches, p.now)
			}
		}
	}
}

// send puts a frame into the queue. Key frames are ten times as large as others.
func (p *testPath) send(media time.Duration, rendition, frame int) {
	bytes := p.chooser.of[rendition].Bitrate / 25 / 8 * groupFrames / (groupFrames + 9)
	if frame%groupFrames == 0 {
		bytes *= 10
	}
	if p.free.Before(p.now) {
		p.free = p.now
	}
	p.free = p.free.Add(time.Duration(float64(bytes*8) / p.rate(media) * float64(time.Second)))
	p.coming = append(p.coming, arrival{p.free.Add(pathRTT / 2), rendition})
}

func constant(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

func TestChooser(t *testing.T) {
	const low, middle, high = 700_000, 2_800_000, 5_000_000
	for name, tt := range map[string]struct {
		rate     func(time.Duration) float64
		start    int
		last     int // rendition at the end
		switches int // at most
		settled  time.Duration
		after    int // switches after that, at most
	}{
		"a wide path": {rate: constant(20e6), start: 2, last: 2},
		"a wide path, from the least on": {
			rate: constant(20e6), start: 0, last: 2, switches: 2, settled: 14 * time.Second,
		},
		"75 % of the best": {
			rate: constant(0.75 * high), start: 2, last: 1, switches: 3, settled: 6 * time.Second, after: 2,
		},
		"too little for the second": {
			rate: constant(1.2e6), start: 2, last: 0, switches: 4, settled: 12 * time.Second, after: 2,
		},
		"150 %, 50 %, 150 %": {
			rate: func(at time.Duration) float64 {
				if at > 20*time.Second && at < 40*time.Second {
					return 0.5 * high
				}
				return 1.5 * high
			},
			start: 2, last: 2, switches: 5,
		},
		"less than the least": {rate: constant(0.5 * low), start: 2, last: 0, switches: 4},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPath(tt.rate, []Rendition{{Bitrate: low}, {Bitrate: middle}, {Bitrate: high}}, tt.start)
			p.run(time.Minute)
			require.Equal(t, tt.last, p.played[len(p.played)-1], "%v", p.played)
			require.LessOrEqual(t, len(p.switches), tt.switches, "%v", p.played)
			after := 0
			for _, at := range p.switches {
				if at.Sub(start) > tt.settled {
					after++
				}
			}
			if tt.settled > 0 {
				require.LessOrEqual(t, after, tt.after, "%v", p.played)
			}
		})
	}
}

// TestFailedTrials checks that each trial that fails makes the next one come later, from the first on.
func TestFailedTrials(t *testing.T) {
	p := newTestPath(constant(1.2e6), []Rendition{{Bitrate: 700_000}, {Bitrate: 2_800_000}}, 0)
	p.run(2 * time.Minute)
	require.LessOrEqual(t, len(p.switches), 6, "%v", p.played)
}
