package sub

import (
	"context"
	"math"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
)

// arrival is the group of the first object that a subscription brings. A process that has just got its first publisher
// accepts a subscription without a Largest Object; then this group tells how far the track is.
type arrival struct {
	once  sync.Once
	came  chan struct{} // closed when group is known
	group uint64
}

func newArrival() *arrival { return &arrival{came: make(chan struct{})} }

// comes is called when something of a group comes, and reports whether it is the first.
func (a *arrival) comes(group uint64) (first bool) {
	a.once.Do(func() {
		first, a.group = true, group
		close(a.came)
	})
	return first
}

// predecessor waits until something has come, and returns the end of the group before. It is nil if there is none, or
// the subscription or the context has ended.
func (a *arrival) predecessor(ctx context.Context, s *session.Subscription) *moqt.Location {
	select {
	case <-a.came:
		if a.group > 0 {
			return &moqt.Location{Group: a.group - 1, Object: math.MaxUint64}
		}
	case <-s.Context().Done():
	case <-ctx.Done():
	}
	return nil
}
