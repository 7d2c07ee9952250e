package history

import (
	"slices"
	"time"
)

// Change is a time at which the median of a Series has gone up or down, and stayed there.
type Change struct {
	At            time.Time
	Before, After time.Duration // medians of the points around it
}

const (
	changeSpan   = 6                // points before and after a change that are compared
	changeFactor = 1.5              // by which the median has to differ
	changeLeast  = time.Millisecond // and how much at least
)

// findChanges compares, at each point, the median of the medians before it with that after it. Where they differ by a
// factor, it takes the point with the largest step from its neighbour, and leaves out those around it.
func findChanges(points []Point) (changes []Change) {
	var best candidate
	keep := func() {
		if best.at > 0 {
			changes = append(changes, best.Change)
		}
		best = candidate{}
	}
	for i := changeSpan; i+changeSpan <= len(points); i++ {
		if best.at > 0 && i-best.at >= changeSpan {
			keep()
		}
		c := newCandidate(points, i)
		low, high := min(c.Before, c.After), max(c.Before, c.After)
		if c.factor >= changeFactor && high-low >= changeLeast && c.beats(best) {
			best = c
		}
	}
	keep()
	return changes
}

// candidate is a point that may be a Change.
type candidate struct {
	Change
	at           int
	factor, step float64
}

func newCandidate(points []Point, i int) candidate {
	before, after := medianOf(points[i-changeSpan:i]), medianOf(points[i:i+changeSpan])
	return candidate{
		Change: Change{points[i].At, before, after}, at: i,
		factor: ratio(before, after), step: ratio(points[i-1].P50, points[i].P50),
	}
}

func (c candidate) beats(o candidate) bool {
	return c.step > o.step || c.step == o.step && c.factor > o.factor
}

// ratio returns how many times the larger one is the smaller one.
func ratio(a, b time.Duration) float64 { return float64(max(a, b)) / float64(max(min(a, b), 1)) }

// medianOf returns the median of the points' medians.
func medianOf(points []Point) time.Duration {
	var all []time.Duration
	for _, p := range points {
		all = append(all, p.P50)
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
