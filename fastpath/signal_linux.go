package fastpath

import "sync"

// signal tells goroutines that something has changed.
type signal struct {
	mu sync.Mutex
	c  chan struct{} // nil: nobody waits
}

// next returns a channel that is closed when the signal is raised.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

// raise closes the channel. Who changes something does that first.
func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}
