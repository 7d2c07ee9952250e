package rendition

import "time"

// Interval is how often Choose is called.
const Interval = 500 * time.Millisecond

// The rule; docs/broadcasts.md says it in words, and the web page has the same.
const (
	lateDelay = 500 * time.Millisecond // or two RTTs, if that is more
	settling  = time.Second            // after a switch, or two RTTs
	calmTime  = 5 * time.Second
	stuckTime = 5 * time.Second  // without any object since another rendition was chosen
	trialTime = 20 * time.Second // a better rendition that is left within this time was a mistake
	leastHold = 30 * time.Second
	mostHold  = 5 * time.Minute

	fitRate   = 0.8 // of the rate that arrives while the path is full
	sureRate  = 0.9 // of that rate: a better rendition may be tried at once
	sureBurst = 1.3 // times its bitrate: the rate of bursts with which a better rendition may be tried at once
)

// Path is what is known of a path. A [Meter] measures it where media arrives.
type Path interface {
	// Delay is by how much media comes later than it could.
	Delay(now time.Time) time.Duration
	// Rate is how many bits per second of media arrive now.
	Rate(now time.Time) float64
	// Burst is how many bits per second the path could take, or 0 if that is not known.
	Burst() float64
	// Last is when the latest media came.
	Last() time.Time
}

// Chooser chooses one of several renditions.
type Chooser struct {
	path     Path
	bitrates []int // in ascending order
	current  int
	before   int  // the one that was played before
	changing bool // nothing has arrived of the current one

	since  time.Time // when the current one was chosen, or its first object arrived
	raised bool      // it is a better one than the one before
	delay  time.Duration
	calm   time.Time // since when objects come in time; zero: they do not

	ceiling float64 // the rate of the path when it was full last
	hold    time.Duration
	held    time.Time // until when the ceiling counts
}

// NewChooser returns a Chooser of renditions by their bitrates, in ascending order. It starts with a current one.
func NewChooser(path Path, bitrates []int, current int) *Chooser {
	return &Chooser{path: path, bitrates: bitrates, current: current, before: current, changing: true}
}

// Current returns the rendition that has been chosen.
func (c *Chooser) Current() int { return c.current }

// Began tells that media of a rendition has come.
func (c *Chooser) Began(now time.Time, rendition int) {
	if c.changing && rendition == c.current {
		c.changing, c.since, c.calm = false, now, time.Time{}
	}
}

// Refused tells that the rendition that Choose returned cannot be had now, or never. The one before goes on.
func (c *Chooser) Refused(now time.Time, never bool) {
	if never {
		c.bitrates[c.current] = 0
	}
	c.current, c.changing, c.since = c.before, false, now
	c.ceiling, c.held = 0, now.Add(leastHold)
}

func (c *Chooser) change(now time.Time, to int) {
	c.raised = to > c.current
	c.before, c.current, c.changing, c.since = c.current, to, true, now
}

// Choose returns the rendition to play from its next group on. It is called every [Interval].
func (c *Chooser) Choose(now time.Time, rtt time.Duration) int {
	before := c.delay
	c.delay = c.path.Delay(now)
	late := max(lateDelay, 2*rtt)
	if c.delay > late/2 {
		c.calm = time.Time{}
	} else if c.calm.IsZero() {
		c.calm = now
	}
	switch {
	case c.changing:
		if c.current != c.before && min(now.Sub(c.path.Last()), now.Sub(c.since)) > stuckTime {
			c.ceiling, c.held = 0, now.Add(leastHold)
			c.change(now, c.before)
		}
	case now.Sub(c.since) < max(settling, 2*rtt):
	case c.delay > late && c.delay >= before:
		c.lower(now)
	case !c.calm.IsZero() && now.Sub(c.calm) >= calmTime:
		c.raise(now)
	}
	return c.current
}

// lower leaves a rendition that comes late and does not catch up. The path is full, so what arrives is its rate.
func (c *Chooser) lower(now time.Time) {
	rate := c.path.Rate(now)
	next := -1
	for i := c.current - 1; i >= 0; i-- {
		if c.bitrates[i] == 0 {
			continue
		}
		if next = i; float64(c.bitrates[i]) <= fitRate*rate {
			break
		}
	}
	if next < 0 {
		return
	}
	if c.raised && now.Sub(c.since) < trialTime {
		c.hold = max(min(2*c.hold, mostHold), leastHold)
	} else {
		c.hold = leastHold
	}
	c.ceiling, c.held = rate, now.Add(c.hold)
	c.change(now, next)
}

// raise tries the next better rendition, unless the path was too slow for it not long ago.
func (c *Chooser) raise(now time.Time) {
	for i := c.current + 1; i < len(c.bitrates); i++ {
		bitrate := float64(c.bitrates[i])
		if bitrate == 0 {
			continue
		}
		if now.Before(c.held) && bitrate > sureRate*c.ceiling && c.path.Burst() < sureBurst*bitrate {
			return
		}
		c.change(now, i)
		return
	}
}
