package media

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
)

// Budget is a [DropPolicy] that gives out the bytes that the path carries. When data waits too long, the path carries
// less than what comes. Budget then fills a [claim.Bucket] at the rate that the path has carried meanwhile, and makes a
// class of each level: so levels lose objects from the least important one on, each only as many as it has to, and the
// most important one none. If data is late again, the bucket gets less; after Recovery without, it gets more, by steps
// that grow. When nothing had to be declined for two such times, everything may pass again. If more turns out to be too
// much, the next attempt waits twice as long, up to 16 times Recovery.
//
// Delays of the most important level are no reason to drop others: it is sent before them anyway. Where all data has
// one level, what remains is GroupDeadline: a late group ends when the next one has come. The zero value is ready to
// use.
type Budget struct {
	// MaxDelay is how long data may wait, besides the time that the path takes for the largest frame: the others have
	// to wait for that. Default: 300 ms.
	MaxDelay      time.Duration
	Recovery      time.Duration // default: 1 s
	GroupDeadline time.Duration // default: 400 ms

	path  flow    // what the path has carried while data waited
	looks int     // at which data waited, one after the other
	seen  []Level // ascending

	active   bool
	rate     float64       // of the bucket
	changed  clock.Time    // when the rate was changed
	steps    int           // how often it has grown since it last shrank
	late     clock.Time    // when data had waited too long last
	burst    float64       // bytes of the two most important levels that waited at a time, see delay
	wait     time.Duration // how long nothing must be late until the rate grows
	held     clock.Time    // when something was declined last
	declined uint64        // all that was, at the last look
}

const (
	budgetShare = 0.97 // of the bytes that the path has carried
	budgetCut   = 0.95 // what is left of a rate with which data is late
	budgetLeast = 0.8  // of the bytes that the path has carried
	budgetRaise = 0.05 // by which a rate grows the first time; each time by that much more
	// budgetBurst is for how long bytes may be saved up: a group of video, which begins with its largest frame.
	budgetBurst = 2 * time.Second
	// bucketBegin is how full a bucket is at first, in 256ths: the least important class gets nothing, the next one
	// does.
	bucketBegin = 160
	// pathPeriod is over which time what the path carries is averaged.
	pathPeriod = 500 * time.Millisecond
	// pathGap is the time without a look after which the path was idle.
	pathGap = 5 * policyInterval
	// minLooks is at how many looks data has to wait: for 200 ms, if none is late.
	minLooks = 20
	// maxBurst is the longest time that a frame may take.
	maxBurst = time.Second
	// burstPeriod is how long a burst is remembered, about: until the next key frame comes.
	burstPeriod = 4 * time.Second
	// maxRate is beyond what any path carries, in bytes a second.
	maxRate = 1 << 40
	// maxSeen is how many levels get classes. There are no more than five of those.
	maxSeen = 64
)

// Decide implements [DropPolicy].
func (p *Budget) Decide(now clock.Time, l Load) Limits {
	p.look(now, l)
	// Before the first RTT it is not known what the path carries: a bucket for so little would stay.
	late := l.SRTT > 0 && p.isLate(l.Levels)
	if late {
		p.late = now
	}
	recovery := cmp.Or(p.Recovery, time.Second)
	carried := p.carried(l)
	switch {
	case late && !p.active:
		p.active, p.held = true, now
		p.shrink(now, recovery, carried)
	case late && now.Sub(p.changed) > p.delay():
		p.shrink(now, recovery, max(min(p.rate, carried)*budgetCut, carried*budgetLeast))
	case !p.active || now.Sub(p.late) <= p.wait || now.Sub(p.changed) <= recovery:
	case now.Sub(p.held) > 2*recovery || p.rate > maxRate:
		p.active, p.seen = false, p.seen[:0]
	default:
		p.steps++
		p.rate, p.changed = max(p.rate*(1+budgetRaise*float64(p.steps)), carried), now
	}
	return p.limits()
}

// carried returns the rate that the path has carried. If that is nothing, because the peer has given no credit or the
// path was away, the congestion window says what it may carry afterwards.
func (p *Budget) carried(l Load) float64 {
	least := float64(congestion.MinWindow)
	if l.SRTT > 0 {
		least = max(least, float64(l.Window)/l.SRTT.Seconds()/4)
	}
	return max(p.path.rate()*budgetShare, least)
}

// delay returns how long data may wait: MaxDelay, and as long as the path takes for the largest frame, which is sent
// before.
func (p *Budget) delay() time.Duration {
	d := cmp.Or(p.MaxDelay, 300*time.Millisecond)
	if rate := p.path.rate(); rate > 0 {
		d += min(time.Duration(p.burst/rate*float64(time.Second)), maxBurst)
	}
	return d
}

// pressed reports whether data has waited for long while the process was running. What has waited because the process
// was not is no reason to drop anything.
func (p *Budget) pressed() bool { return p.looks >= minLooks }

// shrink sets a lower rate. If the last one is not old, it was too early to grow.
func (p *Budget) shrink(now clock.Time, recovery time.Duration, rate float64) {
	if p.steps > 0 && now.Sub(p.changed) < 2*recovery {
		p.wait = min(2*p.wait, maxWait*recovery)
	} else {
		p.wait = recovery
	}
	p.rate, p.changed, p.steps = rate, now, 0
}

// isLate reports whether data of any level but the most important one waits too long.
func (p *Budget) isLate(levels []Backlog) bool {
	return p.pressed() && slices.ContainsFunc(levels, func(l Backlog) bool {
		return l.Age > p.delay() && l.Level > p.seen[0]
	})
}

// limits makes classes of the levels: of each of the first two, of each of the last two, and one of what is between.
func (p *Budget) limits() Limits {
	l := UpTo(LowestPriority)
	if p.pressed() || p.active {
		l.GroupDeadline = cmp.Or(p.GroupDeadline, 400*time.Millisecond)
	}
	if !p.active {
		return l
	}
	l.Deadline = p.delay()
	l.Bucket = claim.Bucket{Rate: max(int64(p.rate), 1), Burst: int64(p.rate * budgetBurst.Seconds())}
	last := len(p.seen) - 1
	for class, i := range [...]int{0, min(1, last), max(last-2, 2), max(last-1, 2)} {
		l.Bucket.Bounds[class] = uint16(p.seen[min(i, last)])
	}
	return l
}

// look notes what the path has carried, and which levels there are.
func (p *Budget) look(now clock.Time, load Load) {
	waits := slices.ContainsFunc(load.Levels, func(l Backlog) bool { return l.Bytes > 0 })
	if !waits || now.Sub(p.path.at) > pathGap {
		p.path, p.looks = flow{at: now, value: load.Left}, 0
		if !p.active {
			p.seen = p.seen[:0] // their subscriptions may have ended
		}
	}
	p.path.note(now, load.Left, pathPeriod)
	p.looks++
	burst := 0.
	for _, l := range load.Levels {
		if i, found := slices.BinarySearch(p.seen, l.Level); !found && len(p.seen) < maxSeen {
			p.seen = slices.Insert(p.seen, i, l.Level)
		}
		if l.Level <= p.seen[min(1, len(p.seen)-1)] {
			burst += float64(l.Bytes)
		}
	}
	p.burst = max(p.burst*(1-policyInterval.Seconds()/burstPeriod.Seconds()), burst)
	if load.Declined != p.declined {
		p.declined, p.held = load.Declined, now
	}
}

// flow is the rate of a counter of bytes, over about a period.
type flow struct {
	at             clock.Time // of the last value
	value          uint64
	bytes, seconds float64
}

// note takes a value into account. Older ones count less and less. A value that is lower than the last one counts as
// the same: the forwarder changes the two counters that [congestion.State].Left comes from one after the other.
func (f *flow) note(now clock.Time, value uint64, period time.Duration) {
	value = max(value, f.value)
	elapsed := now.Sub(f.at).Seconds()
	old := math.Exp(-elapsed / period.Seconds())
	f.bytes, f.seconds = f.bytes*old+float64(value-f.value), f.seconds*old+elapsed
	f.at, f.value = now, value
}

// rate returns the rate in bytes a second.
func (f *flow) rate() float64 {
	if f.seconds == 0 {
		return 0
	}
	return f.bytes / f.seconds
}
