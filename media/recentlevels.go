package media

import (
	"cmp"
	"slices"
	"time"

	"sluice/clock"
)

const (
	// levelPeriod is how long a level is remembered that is not seen.
	levelPeriod = 10 * time.Second
	// maxLevels is how many levels are remembered. There are no more than five classes.
	maxLevels = 64
)

// recentLevels are levels that were seen, ascending. Those that were not seen for levelPeriod go at the next forget.
type recentLevels []recentLevel

type recentLevel struct {
	Level
	seen clock.Time
}

// find returns where a level is, or belongs.
func (r recentLevels) find(level Level) (i int, found bool) {
	return slices.BinarySearchFunc(r, level, func(l recentLevel, of Level) int { return cmp.Compare(l.Level, of) })
}

// note remembers a level that is there now, unless there are too many.
func (r *recentLevels) note(now clock.Time, level Level) {
	i, found := r.find(level)
	switch {
	case found:
		(*r)[i].seen = now
	case len(*r) < maxLevels:
		*r = slices.Insert(*r, i, recentLevel{level, now})
	}
}

// forget removes old levels.
func (r *recentLevels) forget(now clock.Time) {
	*r = slices.DeleteFunc(*r, func(l recentLevel) bool { return now.Sub(l.seen) > levelPeriod })
}
