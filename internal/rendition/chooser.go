package rendition

import "time"

// Interval is how often Choose is called.
const Interval = 500 * time.Millisecond

// The rule; docs/broadcasts.md says it in words, and the web page has the same but for Dropping.
const (
	lateDelay = 500 * time.Millisecond // or two RTTs, if that is more
	settling  = time.Second            // after a switch, or two RTTs
	calmTime  = 5 * time.Second
	stuckTime = 5 * time.Second  // without any object since another rendition was chosen
	trialTime = 20 * time.Second // a better rendition that is left within this time was a mistake
	leastHold = 30 * time.Second
	mostHold  = 5 * time.Minute

	// dropRecovery is how long after a change to a lower rendition it does not count that the relay drops something:
	// its drop policy goes on for a group or two, and the player learns that still later.
	dropRecovery = 7 * time.Second
	// droppingDelay is more than any rule takes for being in time.
	droppingDelay = 10 * time.Second

	fitRate   = 0.95 // of the rate that arrives while the path is full
	dropRate  = 1.5  // of the rate that arrives in time while the relay drops: whole layers do not fit
	sureRate  = 0.9  // of that rate: a better rendition may be tried at once
	sureBurst = 1.3  // times its bitrate: the rate of bursts with which a better rendition may be tried at once
)

// Path is the state of a path.
type Path interface {
	// Delay is by how much media comes later than it could.
	Delay(now time.Time) time.Duration
	// Dropping reports whether the relay leaves something out, so that the rest is in time.
	Dropping(now time.Time) bool
	// Rate is how many bits per second of media arrive now, or could.
	Rate(now time.Time) float64
	// Burst is how many bits per second the path could take, or 0 if that is not known.
	Burst() float64
	// Last is when the latest media came.
	Last() time.Time
}

// Rendition is one of several to choose from.
type Rendition struct {
	Bitrate int    // bits per second; 0: it cannot be had
	Pixels  uint64 // of a picture; 0: not known
}

// Chooser chooses one of several renditions.
type Chooser struct {
	path     Path
	of       []Rendition // by bitrate, in ascending order
	player   player
	current  int
	before   int  // the previous one
	changing bool // nothing has arrived of the current one

	since  time.Time // when the current one was chosen, or its first object arrived
	raised bool      // it is better than the previous one
	reason Reason    // why it was chosen
	delay  time.Duration
	calm   time.Time // since when objects come in time; zero: they do not

	burst   float64 // of the path when the current one was tried
	refuted float64 // such a rate with which a better one came late, as long as the ceiling counts
	ceiling float64 // the rate of the path when it was full last
	hold    time.Duration
	held    time.Time // until when the ceiling counts

	decodable int       // the best rendition that the player has decoded in time
	spared    time.Time // until when it gets no better one
}

// NewChooser returns a Chooser of renditions by bitrate, in ascending order. It starts with a current one.
func NewChooser(path Path, renditions []Rendition, current int) *Chooser {
	return &Chooser{path: path, of: renditions, current: current, before: current, changing: true}
}

// Report takes a player's report.
func (c *Chooser) Report(now time.Time, p Playback) { c.player.report(now, p) }

// Reason returns why the current rendition was chosen, or 0 if it is the first one.
func (c *Chooser) Reason() Reason { return c.reason }

// Began tells that media of a rendition has come.
func (c *Chooser) Began(now time.Time, rendition int) {
	if c.changing && rendition == c.current {
		c.changing, c.since, c.calm = false, now, time.Time{}
		c.player.began(now)
	}
}

// Refused tells that the rendition that Choose returned cannot be had now, or never. The previous one goes on.
func (c *Chooser) Refused(now time.Time, never bool) {
	if never {
		c.of[c.current].Bitrate = 0
	}
	c.current, c.changing, c.since = c.before, false, now
	c.ceiling, c.held = 0, now.Add(leastHold)
}

func (c *Chooser) change(now time.Time, to int, why Reason) {
	c.raised, c.reason = to > c.current, why
	c.before, c.current, c.changing, c.since = c.current, to, true, now
}

// Choose returns the rendition to play from its next group on. It is called every [Interval].
func (c *Chooser) Choose(now time.Time, rtt time.Duration) int {
	before := c.delay
	c.delay = c.path.Delay(now)
	if c.path.Dropping(now) && (c.reason == Better || now.Sub(c.since) > dropRecovery) {
		c.delay = droppingDelay
	}
	usual := max(lateDelay, 2*rtt)
	late := c.player.late(usual)
	if c.delay > min(late, usual)/2 || c.player.isEmpty() {
		c.calm = time.Time{}
	} else if c.calm.IsZero() {
		c.calm = now
	}
	switch {
	case c.changing:
		if c.current != c.before && min(now.Sub(c.path.Last()), now.Sub(c.since)) > stuckTime {
			c.ceiling, c.held = 0, now.Add(leastHold)
			c.change(now, c.before, Stuck)
		}
	case now.Sub(c.since) < max(settling, 2*rtt):
	case c.delay > late && c.delay >= before:
		c.lower(now)
	case c.player.slow:
		c.spare(now)
	case !c.player.shows(c.of[c.current].Pixels):
		c.shrink(now)
	case !c.calm.IsZero() && now.Sub(c.calm) >= calmTime:
		c.raise(now)
	}
	return c.current
}

// below returns the best rendition below the current one that passes, or else the least one; or -1 if there is none.
func (c *Chooser) below(passes func(Rendition) bool) int {
	next := -1
	for i := c.current - 1; i >= 0; i-- {
		if c.of[i].Bitrate == 0 {
			continue
		}
		if next = i; passes(c.of[i]) {
			break
		}
	}
	return next
}

// lower leaves a rendition that comes late and does not catch up. The path is full, so media arrives at its rate.
func (c *Chooser) lower(now time.Time) {
	rate, fits := c.path.Rate(now), fitRate
	if c.delay == droppingDelay {
		fits = dropRate
	}
	next := c.below(func(r Rendition) bool {
		return float64(r.Bitrate) <= fits*rate && c.player.shows(r.Pixels)
	})
	if next < 0 {
		return
	}
	c.refuted = 0
	if c.onTrial(now) {
		next, c.refuted = c.before, c.burst
	}
	c.holdBack(now)
	c.ceiling, c.held = rate, now.Add(c.hold)
	c.change(now, next, Late)
}

// onTrial reports whether the current rendition is a better one that was chosen not long ago.
func (c *Chooser) onTrial(now time.Time) bool { return c.raised && now.Sub(c.since) < trialTime }

// holdBack sets for how long better renditions have to wait: for twice as long if the present one was a mistake.
func (c *Chooser) holdBack(now time.Time) {
	if c.onTrial(now) {
		c.hold = max(min(2*c.hold, mostHold), leastHold)
	} else {
		c.hold = leastHold
	}
}

// spare leaves a rendition that the player does not decode in time.
func (c *Chooser) spare(now time.Time) {
	c.player.slow = false
	next := c.below(func(Rendition) bool { return true })
	if next < 0 {
		return
	}
	c.holdBack(now)
	c.decodable, c.spared = next, now.Add(c.hold)
	c.change(now, next, Decoder)
}

// shrink leaves a rendition with more pixels than the player shows.
func (c *Chooser) shrink(now time.Time) {
	if next := c.below(func(r Rendition) bool { return c.player.shows(r.Pixels) }); next >= 0 {
		c.change(now, next, Display)
	}
}

// raise tries the next better rendition, unless the path or the player was too slow for it not long ago.
func (c *Chooser) raise(now time.Time) {
	for i := c.current + 1; i < len(c.of); i++ {
		bitrate := float64(c.of[i].Bitrate)
		if bitrate == 0 || !c.player.shows(c.of[i].Pixels) {
			continue
		}
		burst := c.path.Burst()
		if now.Before(c.held) && bitrate > sureRate*c.ceiling && burst < sureBurst*max(bitrate, c.refuted) ||
			now.Before(c.spared) && i > c.decodable {
			return
		}
		c.burst = burst
		c.change(now, i, Better)
		return
	}
}
