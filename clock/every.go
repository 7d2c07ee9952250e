package clock

import (
	"iter"
	"time"
)

// Every yields the time at intervals, until done is closed.
func Every(interval time.Duration, done <-chan struct{}) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if !yield(now) {
					return
				}
			case <-done:
				return
			}
		}
	}
}
