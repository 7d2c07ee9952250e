package rendition

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testPath is a simulated path to a player: a queue of one rate, and one publisher with renditions of groups of two
// seconds. Time is simulated, too.
type testPath struct {
	rate  func(at time.Duration) float64 // bits per second
	spike func(frame int) time.Duration  // by which a frame is late, beside the queue

	report func(at time.Duration, playing int) Playback // of the player; nil: none comes

	chooser  *Chooser
	meter    *Meter
	free     time.Time   // when the queue is empty
	arrivals []arrival   // in order
	played   []int       // rendition of each group
	switches []time.Time // when another one was chosen
}

type arrival struct {
	at, began time.Time
	media     time.Duration
	rendition int
	bytes     int
}

const (
	frameTime   = 40 * time.Millisecond
	groupFrames = 50
	pathRTT     = 40 * time.Millisecond
)

var start = time.Unix(1_000_000, 0)

// run plays for a while.
func (p *testPath) run(d time.Duration) {
	current := p.chooser.current
	for frame := 0; frameTime*time.Duration(frame) < d; frame++ {
		media := time.Duration(frame) * frameTime
		now := start.Add(media)
		if frame%groupFrames == 0 {
			current = p.chooser.current
			p.played = append(p.played, current)
		}
		p.send(now, media, current, frame)
		p.deliver(now)
		if p.report != nil && media%time.Second == 0 {
			p.chooser.Report(now, p.report(media, current))
		}
		if media%Interval == 0 {
			was := p.chooser.current
			if p.chooser.Choose(now, pathRTT) != was {
				p.switches = append(p.switches, now)
			}
		}
	}
}

// send puts a frame into the queue. Key frames are ten times as large as others.
func (p *testPath) send(now time.Time, media time.Duration, rendition, frame int) {
	unit := p.chooser.of[rendition].Bitrate / 25 / 8 * groupFrames / (groupFrames + 9)
	bytes := unit
	if frame%groupFrames == 0 {
		bytes = 10 * unit
	}
	begin := now
	if p.free.After(begin) {
		begin = p.free
	}
	p.free = begin.Add(time.Duration(float64(bytes*8) / p.rate(media) * float64(time.Second)))
	at, begin := p.free.Add(pathRTT/2), begin.Add(pathRTT/2)
	if p.spike != nil {
		at = at.Add(p.spike(frame))
	}
	p.arrivals = append(p.arrivals, arrival{at, begin, media, rendition, bytes})
	slices.SortStableFunc(p.arrivals, func(a, b arrival) int { return a.at.Compare(b.at) })
}

func (p *testPath) deliver(now time.Time) {
	for len(p.arrivals) > 0 && !p.arrivals[0].at.After(now) {
		a := p.arrivals[0]
		p.arrivals = p.arrivals[1:]
		p.meter.Arrived(a.at, a.media, a.bytes, a.at.Sub(a.began))
		p.chooser.Began(a.at, a.rendition)
	}
}

func constant(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

func TestChooser(t *testing.T) {
	const low, middle, high = 700_000, 2_800_000, 5_000_000
	for name, tt := range map[string]struct {
		rate     func(time.Duration) float64
		spike    func(frame int) time.Duration
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
		"a loss in each second": {
			rate: constant(20e6), start: 2, last: 2,
			spike: func(frame int) time.Duration {
				if frame%25 < 3 {
					return 600 * time.Millisecond
				}
				return 0
			},
		},
		"less than the least": {rate: constant(0.5 * low), start: 2, last: 0, switches: 4},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Meter{}
			c := NewChooser(m, []Rendition{{Bitrate: low}, {Bitrate: middle}, {Bitrate: high}}, tt.start)
			p := &testPath{rate: tt.rate, spike: tt.spike, chooser: c, meter: m, free: start}
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
	m := &Meter{}
	c := NewChooser(m, []Rendition{{Bitrate: 700_000}, {Bitrate: 2_800_000}}, 0)
	p := &testPath{rate: constant(1.2e6), chooser: c, meter: m, free: start}
	p.run(2 * time.Minute)
	require.LessOrEqual(t, len(p.switches), 6, "%v", p.played)
}
