package server

import (
	"time"

	"golang.org/x/sys/cpu"
)

const (
	// coalesceDelay is how long packets wait for others while the kernel forwards. It is short compared with the time
	// between two frames, so that ACKs still open congestion windows in time, and long compared with a burst.
	coalesceDelay = 2 * time.Millisecond
	// coalesceAfter is how long after its last packet with media user space reads packets at once: after the kernel has
	// declined media, it often declines more.
	coalesceAfter = 100 * time.Millisecond
)

// newCoalescing returns a function for the reader of a socket, which calls it before it sleeps. It returns how long
// packets may wait (see [transport.ListenConfig.Coalesce]), and adapts the number of processors to the load. While the
// kernel forwards all media, user space only caches it and records what was sent, which is not urgent.
func (s *Server) newCoalescing(socket int) func() time.Duration {
	w := new(sendWatch)
	return func() time.Duration {
		select {
		case <-s.ready:
		default:
			return 0
		}
		if s.loop == nil {
			return 0
		}
		now := time.Now()
		if s.processors != nil {
			s.processors.look(now, s.sent, cpuTime)
		}
		if s.fastPath == nil || !s.fastPath.Forwards() {
			return 0
		}
		return w.delay(s.loop.SentOn(socket), now)
	}
}

// sent is how many packets with media the process has sent, at most.
func (s *Server) sent() uint64 {
	if s.fastPath == nil {
		return s.loop.Sent()
	}
	return s.loop.Sent() + s.fastPath.WorkersCopies()
}

// sendWatch observes how much media user space sends on a socket.
type sendWatch struct {
	sent  uint64           // packets, at most so far
	since time.Time        // when this number was first seen
	_     cpu.CacheLinePad // readers run on different processors
}

// delay returns how long packets may wait.
func (w *sendWatch) delay(sent uint64, now time.Time) time.Duration {
	if sent > w.sent {
		w.sent, w.since = sent, now
	}
	if now.Sub(w.since) < coalesceAfter {
		return 0
	}
	return coalesceDelay
}
