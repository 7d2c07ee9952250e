package rendition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// known is a path with a known state.
type known struct {
	delay    time.Duration
	dropping bool
	rate     float64
	burst    float64
}

func (p *known) Delay(time.Time) time.Duration { return p.delay }
func (p *known) Dropping(time.Time) bool       { return p.dropping }
func (p *known) Rate(time.Time) float64        { return p.rate }
func (p *known) Burst() float64                { return p.burst }
func (p *known) Last() time.Time               { return start }

// play lets a chooser choose for a while. Media of its choice come at once.
func (p *known) play(c *Chooser, from time.Duration, d time.Duration) (current int) {
	for at := from; at < from+d; at += Interval {
		c.Began(start.Add(at), c.Choose(start.Add(at), pathRTT))
	}
	return c.current
}

// A relay that drops is like a path that is full, but for a while after a lower rendition was chosen. A better one that
// was tried in vain is left for its predecessor, and bursts that were wrong once count no more.
func TestChooserLeavesWhatIsDropped(t *testing.T) {
	renditions := []Rendition{{Bitrate: 400_000}, {Bitrate: 1_000_000}, {Bitrate: 2_000_000}}
	p := &known{rate: .7e6, burst: 3e6} // the rate that arrived of 2 Mbit/s over 1.26 Mbit/s, in the least two seconds
	c := NewChooser(p, renditions, 2)
	c.Began(start, 2)
	p.dropping = true
	require.Equal(t, 1, p.play(c, dropRecovery+Interval, Interval), "which fits into what could arrive")
	late := NewChooser(&known{rate: p.rate, delay: time.Second}, renditions, 2)
	late.Began(start, 2)
	require.Equal(t, 0, p.play(late, 2*settling, Interval), "the path is full")
	require.Equal(t, 1, p.play(c, 8*time.Second, 5*time.Second), "the policy goes on for a while")
	p.dropping = false
	require.Equal(t, 2, p.play(c, 13*time.Second, 7*time.Second), "bursts are fast")
	p.dropping, p.rate = true, 900_000
	require.Equal(t, 1, p.play(c, 20*time.Second, 2*time.Second), "not the one that fits into what arrives")
	p.dropping = false
	require.Equal(t, 1, p.play(c, 22*time.Second, 20*time.Second), "bursts are no faster than before")
	p.burst = 4e6
	require.Equal(t, 2, p.play(c, 42*time.Second, time.Second))
}

// TestBounds has paths at the bounds of the rule, and begins in the middle of three renditions.
func TestBounds(t *testing.T) {
	const never = time.Minute
	for name, tt := range map[string]struct {
		path known
		rtt  time.Duration
		at   time.Duration // of the first change
		to   int
	}{
		"late":                    {known{delay: lateDelay + 1}, pathRTT, settling, 0},
		"not late":                {known{delay: lateDelay}, pathRTT, never, 1},
		"late, over a long path":  {known{delay: 2*time.Second + 1}, time.Second, 2 * time.Second, 0},
		"not late for a long one": {known{delay: 2 * time.Second}, time.Second, never, 1},
		"in time":                 {known{delay: lateDelay / 2}, pathRTT, calmTime, 2},
		"not in time":             {known{delay: lateDelay/2 + 1}, pathRTT, never, 1},
		"dropping":                {known{delay: lateDelay/2 + 1, dropping: true}, pathRTT, dropRecovery + Interval, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewChooser(&tt.path, []Rendition{{Bitrate: 400_000}, {Bitrate: 1_000_000}, {Bitrate: 2_000_000}}, 1)
			c.Began(start, 1)
			at := time.Duration(0)
			for at < never && c.Choose(start.Add(at), tt.rtt) == 1 {
				at += Interval
			}
			require.Equal(t, tt.at, at)
			require.Equal(t, tt.to, c.current)
		})
	}
}

// A rendition that brings nothing is left for the one before.
func TestChooserGoesBack(t *testing.T) {
	p := new(known)
	c := NewChooser(p, []Rendition{{Bitrate: 400_000}, {Bitrate: 1_000_000}}, 0)
	c.Began(start, 0)
	begin := start.Add(calmTime)
	require.Equal(t, 0, c.Choose(start, pathRTT))
	require.Equal(t, 1, c.Choose(begin, pathRTT))
	require.Equal(t, 1, c.Choose(begin.Add(stuckTime), pathRTT))
	require.Equal(t, 0, c.Choose(begin.Add(stuckTime+1), pathRTT))
	require.Equal(t, Stuck, c.Reason())
}

// A rendition that came late is tried again if the path has shown that it fits, or after a while.
func TestChooserTriesAgain(t *testing.T) {
	for p, want := range map[known]time.Duration{
		{rate: 1.2e6}: calmTime, {rate: 1.1e6}: leastHold, {rate: 1.1e6, burst: sureBurst * 1e6}: calmTime,
	} {
		p.delay = time.Second
		c := NewChooser(&p, []Rendition{{Bitrate: 400_000}, {Bitrate: 1_000_000}}, 1)
		c.Began(start, 1)
		left := start.Add(settling)
		require.Equal(t, 0, c.Choose(left, pathRTT))
		c.Began(left, 0)
		p.delay = 0
		at := time.Duration(0)
		for c.Choose(left.Add(at), pathRTT) == 0 {
			at += Interval
		}
		require.Equal(t, want, at, "%+v", p)
	}
}
