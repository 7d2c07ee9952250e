package session

import "sync"

// taskGroup counts the goroutines of a session. None can be added after close, so that wait waits for all of them.
type taskGroup struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// spawn runs f in a goroutine. After close it does nothing and returns false.
func (g *taskGroup) spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.group.Go(f)
	return true
}

// close reports whether it was the first call.
func (g *taskGroup) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.closed
	g.closed = true
	return first
}

func (g *taskGroup) wait() { g.group.Wait() }

// semaphore limits how many streams wait, to its capacity.
type semaphore chan struct{}

func (s semaphore) tryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s semaphore) release() { <-s }
