package sub

import "time"

// The rule by which a player chooses a rendition; docs/broadcasts.md says it in words, and the web page has the same.
const (
	chooseInterval = 500 * time.Millisecond
	lateDelay      = 500 * time.Millisecond // or two RTTs, if that is more
	settling       = time.Second            // after a switch, or two RTTs
	calmTime       = 5 * time.Second
	stuckTime      = 5 * time.Second  // without any object since another rendition was chosen
	trialTime      = 20 * time.Second // a better rendition that is left within this time was a mistake
	leastHold      = 30 * time.Second
	mostHold       = 5 * time.Minute

	fitRate   = 0.8 // of the rate that arrives while the path is full
	sureRate  = 0.9 // of that rate: a better rendition may be tried at once
	sureBurst = 1.3 // times its bitrate: the rate of bursts with which a better rendition may be tried at once
)

// chooser chooses one of several renditions by how their objects arrive.
type chooser struct {
	meter    meter
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

func newChooser(bitrates []int, current int) *chooser {
	return &chooser{bitrates: bitrates, current: current, before: current, changing: true}
}

// arrived counts an object of a rendition.
func (c *chooser) arrived(now time.Time, rendition int, media time.Duration, bytes int, took time.Duration) {
	c.meter.arrived(now, media, bytes, took)
	if c.changing && rendition == c.current {
		c.changing, c.since, c.calm = false, now, time.Time{}
	}
}

// refused tells that the rendition that choose returned cannot be had now, or never. The one before goes on.
func (c *chooser) refused(now time.Time, never bool) {
	if never {
		c.bitrates[c.current] = 0
	}
	c.current, c.changing, c.since = c.before, false, now
	c.ceiling, c.held = 0, now.Add(leastHold)
}

func (c *chooser) change(now time.Time, to int) {
	c.raised = to > c.current
	c.before, c.current, c.changing, c.since = c.current, to, true, now
}

// choose returns the rendition to play from its next group on. It is called every chooseInterval.
func (c *chooser) choose(now time.Time, rtt time.Duration) int {
	before := c.delay
	c.delay = c.meter.delay(now)
	late := max(lateDelay, 2*rtt)
	if c.delay > late/2 {
		c.calm = time.Time{}
	} else if c.calm.IsZero() {
		c.calm = now
	}
	switch {
	case c.changing:
		if c.current != c.before && min(now.Sub(c.meter.last), now.Sub(c.since)) > stuckTime {
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
func (c *chooser) lower(now time.Time) {
	rate := c.meter.rate(now)
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
func (c *chooser) raise(now time.Time) {
	for i := c.current + 1; i < len(c.bitrates); i++ {
		bitrate := float64(c.bitrates[i])
		if bitrate == 0 {
			continue
		}
		if now.Before(c.held) && bitrate > sureRate*c.ceiling && c.meter.burst() < sureBurst*bitrate {
			return
		}
		c.change(now, i)
		return
	}
}
