package media

import (
	"slices"
	"time"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
)

// Budget is a [DropPolicy] that gives out the bytes that the path carries. When data waits too long, the path carries
// less than what comes. Budget then fills a [claim.Bucket] at the rate that the path has carried meanwhile, and makes a
// class of each level: so levels lose objects from the least important one on, each only as many as it has to, and the
// most important one none. If data is late again, the bucket gets less. A frame that waits for a moment shows what the
// path carries: the bucket gets that at once. After a second without late data it gets more, by steps that grow. When
// nothing had to be declined for two such times, everything may pass again. If more turns out to be too much, the next
// attempt waits twice as long, up to 16 s.
//
// A path that carries nothing for a while is away, and not slow. What has waited for it meanwhile, or has come as a
// burst, is sent if it will be gone within 3 s.
//
// Delays of the most important level are no reason to drop others: it is sent before them anyway. Where all data has
// one level, what remains is [Limits.GroupDeadline]: a late group ends when the next one has come. The zero value is
// ready to use.
type Budget struct {
	load     loadMeter
	active   bool
	rate     float64       // of the bucket
	changed  clock.Time    // when the rate was changed
	steps    int           // how often it has grown since it last shrank
	late     clock.Time    // when data had waited too long last
	wait     time.Duration // how long nothing must be late until the rate grows
	held     clock.Time    // when something was declined last
	declined uint64        // all that was, at the last look
}

const (
	// budgetDelay is how long data may wait, besides the time that the path takes for the largest frame: the others
	// have to wait for that.
	budgetDelay    = 300 * time.Millisecond
	budgetRecovery = time.Second
	budgetDeadline = 400 * time.Millisecond // of groups
	budgetCatchUp  = 3 * time.Second

	budgetShare = 0.97 // of the bytes that the path has carried
	budgetCut   = 0.95 // the part that remains of a rate with which data is late
	budgetLeast = 0.8  // of the bytes that the path has carried
	budgetRaise = 0.05 // by which a rate grows the first time; each time by that much more
	// budgetBurst is for how long bytes may be saved up: a group of video, which begins with its largest frame.
	budgetBurst = 2 * time.Second
	// bucketBegin is how full a bucket is at first, in 256ths: the least important class gets nothing, the next one
	// does.
	bucketBegin = 160
	// maxBurst is the longest time that a frame may take.
	maxBurst = time.Second
	// maxRate is beyond what any path carries, in bytes a second.
	maxRate = 1 << 40
)

// Decide implements [DropPolicy].
func (p *Budget) Decide(now clock.Time, l Load) Limits {
	p.load.look(now, l, p.active)
	if l.Declined != p.declined {
		p.declined, p.held = l.Declined, now
	}
	late := p.isLate(l.Levels)
	if late || p.load.away {
		p.late = now
	}
	carried := p.carried(l)
	if !late {
		p.rate = max(p.rate, p.load.shown(l.MinRTT)*budgetShare)
	}
	switch {
	case late && !p.active:
		p.active, p.held = true, now
		p.shrink(now, carried)
	case late && now.Sub(p.changed) > p.delay():
		p.shrink(now, max(min(p.rate, carried)*budgetCut, carried*budgetLeast))
	case !p.active || now.Sub(p.late) <= p.wait || now.Sub(p.changed) <= budgetRecovery:
	case now.Sub(p.held) > 2*budgetRecovery || p.rate > maxRate:
		p.active = false
	default:
		p.steps++
		p.rate, p.changed = max(p.rate*(1+budgetRaise*float64(p.steps)), carried), now
	}
	return p.limits()
}

// carried returns the rate that the path has carried. If that is nothing, because the peer has given no credit, the
// congestion window says what it may carry afterwards.
func (p *Budget) carried(l Load) float64 {
	least := float64(congestion.MinWindow)
	if l.SRTT > 0 {
		least = max(least, float64(l.Window)/l.SRTT.Seconds()/4)
	}
	return max(p.load.carried.value()*budgetShare, least)
}

// delay returns how long data may wait: budgetDelay, and as long as the path takes for the largest frame, which is sent
// before.
func (p *Budget) delay() time.Duration {
	d := budgetDelay
	if rate := p.load.carried.value(); rate > 0 {
		d += time.Duration(min(p.load.burst/rate, maxBurst.Seconds()) * float64(time.Second))
	}
	return d
}

// congested reports whether the path carries less than what comes: data waits for long, and will go on to.
func (p *Budget) congested() bool {
	return p.load.pressed() && !p.load.drains(budgetCatchUp)
}

// isLate reports whether data of any level but the most important one waits too long.
func (p *Budget) isLate(levels []Backlog) bool {
	return p.congested() && slices.ContainsFunc(levels, func(l Backlog) bool {
		return l.Age > p.delay() && l.Level > p.load.level(0)
	})
}

// shrink sets a lower rate. If the last one is not old, it was too early to grow.
func (p *Budget) shrink(now clock.Time, rate float64) {
	if p.steps > 0 && now.Sub(p.changed) < 2*budgetRecovery {
		p.wait = min(2*p.wait, maxWait*budgetRecovery)
	} else {
		p.wait = budgetRecovery
	}
	p.rate, p.changed, p.steps = rate, now, 0
}

// limits makes classes of the levels: of each of the first two, of each of the last two, and one of what is between.
func (p *Budget) limits() Limits {
	l := UpTo(LowestPriority)
	if p.congested() {
		l.GroupDeadline = budgetDeadline
	}
	if !p.active {
		return l
	}
	l.Deadline = p.delay()
	l.Bucket = claim.Bucket{Rate: max(int64(p.rate), 1), Burst: int64(p.rate * budgetBurst.Seconds())}
	last := len(p.load.levels) - 1
	for class, i := range [...]int{0, 1, max(last-2, 2), max(last-1, 2)} {
		l.Bucket.Bounds[class] = uint16(p.load.level(i))
	}
	return l
}
