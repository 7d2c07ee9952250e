package relay

import (
	"maps"
	"slices"
	"sync"

	"sluice/relay/withdrawn"
)

// maxReviewers is how many leases are reviewed at a time. An Authorizer may wait for a service.
const maxReviewers = 1024

// leases are all that are in force. When the Authorizer has changed, it is asked about each of them again.
type leases struct {
	mu        sync.Mutex
	all       map[*lease]struct{}
	changes   uint64   // how often the Authorizer has changed
	waiting   []*lease // for a review
	reviewers int      // goroutines
}

func newLeases() leases { return leases{all: make(map[*lease]struct{})} }

func (s *leases) add(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[l] = struct{}{}
}

func (s *leases) remove(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
}

func (s *leases) countChanges() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// changed has all leases reviewed, because the Authorizer has changed.
func (s *leases) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	for l := range s.all {
		s.queueLocked(l)
	}
}

// endOf ends the leases of tokens that are withdrawn. The Authorizer, which may take long, is not asked about them.
func (s *leases) endOf(tokens *withdrawn.List) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, l := range all {
		if tokens.Has(l.current().Subject) {
			go l.lose(errWithdrawn)
		}
	}
}

// queue has a lease reviewed soon.
func (s *leases) queue(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueLocked(l)
}

func (s *leases) queueLocked(l *lease) {
	if l.queued {
		return
	}
	l.queued = true
	s.waiting = append(s.waiting, l)
	if s.reviewers < maxReviewers {
		s.reviewers++
		go s.review()
	}
}

// review reviews the leases that wait, until there are none.
func (s *leases) review() {
	for l := s.next(); l != nil; l = s.next() {
		l.check()
	}
}

// next takes a lease that waits. Without one, the reviewer that has called it is gone.
func (s *leases) next() *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.waiting = nil
		s.reviewers--
		return nil
	}
	l := s.waiting[0]
	s.waiting = s.waiting[1:]
	l.queued = false
	return l
}
