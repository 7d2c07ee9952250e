package media

import (
	"cmp"
	"slices"
	"time"

	"sluice/clock"
)

// PriorityDrop is a [DropPolicy]. When data waits for longer than MaxDelay, it drops the lowest priority in use, and
// the next one each MaxDelay until the rest flows, but never the highest. Waiting data of the highest priority is no
// reason to drop others: it is sent before them anyway. MaxDelay should be more than a key frame takes to send,
// because the rest has to wait for it. After Recovery without such delays everything may pass again. If that turns
// out to be too early, the next attempt waits twice as long, up to 16 times Recovery. The zero value is ready to use.
type PriorityDrop struct {
	MaxDelay time.Duration // default: 400 ms
	Recovery time.Duration // default: 2 s

	inUse   []Level       // seen since everything could pass, ascending
	keep    Level         // the threshold, if active
	active  bool          // something is dropped
	lowered clock.Time    // when the threshold was lowered last
	late    clock.Time    // when data had waited too long last
	passed  clock.Time    // when everything was let pass last
	wait    time.Duration // how long nothing must be late until everything may pass
}

// maxWait is the most that PriorityDrop waits, in units of Recovery.
const maxWait = 16

// Decide implements [DropPolicy].
func (p *PriorityDrop) Decide(now clock.Time, load Load) Limits {
	delay, recovery := cmp.Or(p.MaxDelay, 400*time.Millisecond), cmp.Or(p.Recovery, 2*time.Second)
	late, starved := false, false
	for _, l := range load.Levels {
		if i, found := slices.BinarySearch(p.inUse, l.Level); !found {
			p.inUse = slices.Insert(p.inUse, i, l.Level)
		}
		late = late || l.Age > delay
		starved = starved || l.Age > delay && l.Level > p.inUse[0]
	}
	if late {
		p.late = now
	}
	switch {
	case starved && !p.active:
		p.begin(now, recovery)
	case starved && now.Sub(p.lowered) > delay:
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
func (p *PriorityDrop) begin(now clock.Time, recovery time.Duration) {
	p.wait = max(p.wait, recovery)
	if p.passed != 0 && now.Sub(p.passed) < p.wait {
		p.wait = min(2*p.wait, maxWait*recovery)
	} else {
		p.wait = recovery
	}
	p.lower(now, LowestPriority)
}

// lower drops the lowest priority in use that passes the threshold, unless it is the highest.
func (p *PriorityDrop) lower(now clock.Time, threshold Level) {
	passing, found := slices.BinarySearch(p.inUse, threshold)
	if found {
		passing++
	}
	if passing > 1 {
		p.active, p.keep, p.lowered = true, p.inUse[passing-2], now
	}
}
