package media

import (
	"time"

	"sluice/clock"
)

// PriorityDrop is a [DropPolicy]. When data waits for longer than 400 ms, it drops the lowest priority in use, and the
// next one each 400 ms until the rest flows, but never the highest. Waiting data of the highest priority that has
// streams is no reason to drop others: it is sent before them anyway. After 2 s without such delays everything may pass
// again. If that turns out to be too early, the next attempt waits twice as long, up to 32 s. The zero value is ready
// to use.
type PriorityDrop struct {
	inUse   recentLevels  // seen since everything could pass; while something is dropped, none is forgotten
	keep    Level         // the threshold, if active
	active  bool          // something is dropped
	lowered clock.Time    // when the threshold was lowered last
	late    clock.Time    // when data had waited too long last
	passed  clock.Time    // when everything was let pass last
	wait    time.Duration // how long nothing must be late until everything may pass
}

const (
	dropDelay    = 400 * time.Millisecond // more than a key frame takes to send, because the rest has to wait for it
	dropRecovery = 2 * time.Second
	maxWait      = 16 // times as long as that is the most that a policy waits
)

// Decide implements [DropPolicy].
func (p *PriorityDrop) Decide(now clock.Time, load Load) Limits {
	late, starved := false, false
	for _, l := range load.Levels {
		p.inUse.note(now, l.Level)
		late = late || l.Age > dropDelay
		starved = starved || l.Age > dropDelay && l.Level > load.Levels[0].Level
	}
	if !p.active {
		p.inUse.forget(now)
	}
	if late {
		p.late = now
	}
	switch {
	case starved && !p.active:
		p.begin(now)
	case starved && now.Sub(p.lowered) > dropDelay:
		p.lower(now, p.keep)
	case p.active && now.Sub(p.late) > p.wait:
		p.active, p.passed, p.inUse = false, now, p.inUse[:0]
	}
	if !p.active {
		return UpTo(LowestPriority)
	}
	return UpTo(p.keep)
}

// begin drops the first level. If everything was let pass shortly before, that was too early.
func (p *PriorityDrop) begin(now clock.Time) {
	p.wait = max(p.wait, dropRecovery)
	if p.passed != 0 && now.Sub(p.passed) < p.wait {
		p.wait = min(2*p.wait, maxWait*dropRecovery)
	} else {
		p.wait = dropRecovery
	}
	p.lower(now, LowestPriority)
}

// lower drops the lowest priority in use that passes the threshold, unless it is the highest.
func (p *PriorityDrop) lower(now clock.Time, threshold Level) {
	passing, found := p.inUse.find(threshold)
	if found {
		passing++
	}
	if passing > 1 {
		p.active, p.keep, p.lowered = true, p.inUse[passing-2].Level, now
	}
}
