package media

import (
	"cmp"
	"slices"
	"sluice/clock"
	"sluice/congestion"
	"time"
)

// DropPolicy decides what a congested subscriber does without. A policy serves one connection and is called by one goroutine at a time,
// with the sender's lock held: it must neither block nor call the sender.
type DropPolicy interface {
	// Threshold returns the highest level (the lowest priority) that is sent. Streams beyond it are not opened, and reset with
	// DELIVERY_TIMEOUT if they are open; datagrams are dropped. It is called every 10 ms while data waits, and while the threshold is
	// not [LowestPriority]. levels is ascending, and valid during the call only.
	Threshold(now clock.Time, c congestion.State, levels []Backlog) Level
}

// Backlog is what waits at one level that has streams.
type Backlog struct {
	Level   Level
	Streams int
	Bytes   int64         // that could be sent if the path and the peer allowed it
	Age     time.Duration // of the oldest of them: since its object was received, or its stream was opened if that was later
}

// PriorityDrop is a [DropPolicy]: when data waits for longer than MaxDelay it gives up the lowest priority in use, and the next one each
// MaxDelay until the rest flows, but never the highest. Data of the highest priority that waits costs no other its place: it is
// sent first anyway. MaxDelay should be more than a key frame takes to send, because then the rest has to wait. After Recovery without
// such delays everything may pass again; where that turns out to be too early, the next attempt waits twice as long, up to 16 times.
// The zero value is ready to use.
type PriorityDrop struct {
	MaxDelay time.Duration // default: 400 ms
	Recovery time.Duration // default: 2 s

	inUse    []Level // seen since everything could pass, ascending
	keep     Level   // the threshold, if active
	active   bool
	lowered  clock.Time
	late     clock.Time // when something had waited too long last
	passed   clock.Time // when everything was let pass last
	patience time.Duration
}

const maxPatience = 16

// Threshold implements [DropPolicy].
func (p *PriorityDrop) Threshold(now clock.Time, _ congestion.State, levels []Backlog) Level {
	delay, recovery := cmp.Or(p.MaxDelay, 400*time.Millisecond), cmp.Or(p.Recovery, 2*time.Second)
	late, starved := false, false
	for _, l := range levels {
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
	case p.active && now.Sub(p.late) > p.patience:
		p.active, p.passed, p.inUse = false, now, p.inUse[:0]
	}
	if !p.active {
		return LowestPriority
	}
	return p.keep
}

// begin gives up the first level. Soon after everything was let pass, that was too early.
func (p *PriorityDrop) begin(now clock.Time, recovery time.Duration) {
	p.patience = max(p.patience, recovery)
	if p.passed != 0 && now.Sub(p.passed) < p.patience {
		p.patience = min(2*p.patience, maxPatience*recovery)
	} else {
		p.patience = recovery
	}
	p.lower(now, LowestPriority)
}

// lower gives up the lowest priority in use that passes the threshold, unless it is the highest.
func (p *PriorityDrop) lower(now clock.Time, threshold Level) {
	passing, found := slices.BinarySearch(p.inUse, threshold)
	if found {
		passing++
	}
	if passing > 1 {
		p.active, p.keep, p.lowered = true, p.inUse[passing-2], now
	}
}
