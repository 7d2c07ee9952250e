package lease

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sluice/relay/withdrawn"
)

// maxReviewers is how many leases are reviewed at a time. An Authorizer may wait for a service.
const maxReviewers = 1024

// Leases are all that are in force. When the Authorizer has changed, it is asked about each of them again.
type Leases struct {
	// Withdrawn are the tokens that have lost their force: their leases end at once, as the Authorizer, which may take
	// long, is not asked about them.
	Withdrawn *withdrawn.List

	mu        sync.Mutex
	all       map[*Lease]struct{}
	changes   uint64   // how often the Authorizer has changed
	waiting   []*Lease // for a review
	reviewers int      // goroutines
}

// NewLeases returns the leases of a relay that has given none.
func NewLeases() *Leases {
	s := &Leases{all: make(map[*Lease]struct{})}
	s.Withdrawn = withdrawn.New(s.endWithdrawn)
	return s
}

// New returns a lease without a Grant. Reviews end with the context.
func (s *Leases) New(ctx context.Context, ask Ask) *Lease {
	return &Lease{among: s, ctx: ctx, ask: ask}
}

func (s *Leases) add(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[l] = struct{}{}
}

func (s *Leases) remove(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
}

func (s *Leases) countChanges() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// Changed has all leases reviewed, because the Authorizer has changed.
func (s *Leases) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	for l := range s.all {
		s.queueLocked(l)
	}
}

// endWithdrawn ends the leases of tokens that are withdrawn.
func (s *Leases) endWithdrawn() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, l := range all {
		if s.Withdrawn.Has(l.Current().Subject) {
			go l.lose(errWithdrawn)
		}
	}
}

// queue has a lease reviewed soon.
func (s *Leases) queue(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueLocked(l)
}

func (s *Leases) queueLocked(l *Lease) {
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
func (s *Leases) review() {
	for l := s.next(); l != nil; l = s.next() {
		l.check()
	}
}

// next takes a lease that waits. Without one, the reviewer that has called it is gone.
func (s *Leases) next() *Lease {
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
