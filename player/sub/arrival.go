package sub

import (
	"math"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
)

// arrival is the first group of which a subscription has brought something. It tells how far a track is if the relay
// did not know that when it accepted the subscription, as a process does not that has just got its first publisher.
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
// the subscription has ended.
func (a *arrival) predecessor(s *session.Subscription) *moqt.Location {
	select {
	case <-a.came:
		if a.group > 0 {
			return &moqt.Location{Group: a.group - 1, Object: math.MaxUint64}
		}
	case <-s.Context().Done():
	}
	return nil
}
