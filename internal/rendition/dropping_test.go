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
