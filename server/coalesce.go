package server

import "time"

const (
	// coalesceDelay is how long packets wait for others while the kernel forwards. It is short compared with the time
	// between two frames, so that ACKs still open congestion windows in time, and long compared with a burst.
	coalesceDelay = 2 * time.Millisecond
	// coalesceAfter is how long after its last packet with media user space reads packets at once: after the kernel has
	// declined media, it often declines more.
	coalesceAfter = 100 * time.Millisecond
)

// newCoalescing returns a function that returns how long packets may wait (see [transport.ListenConfig.Coalesce]), has
// the packets processed that the kernel has taken, and adapts the number of processors to the load. The reader of the
// socket calls it before it sleeps. While the kernel forwards all media, user space only caches it and records what was
// sent, which is not urgent.
func (s *Server) newCoalescing() func() time.Duration {
	var w sendWatch
	return func() time.Duration {
		select {
		case <-s.ready:
		default:
			return 0
		}
		if s.loop == nil {
			return 0
		}
		s.loop.HandOver()
		sent, now := s.loop.Sent(), time.Now()
		if s.processors != nil {
			s.processors.look(now, sent, cpuTime)
		}
		if s.fastPath == nil || !s.fastPath.Forwards() {
			return 0
		}
		return w.delay(sent, now)
	}
}

// sendWatch observes how much media user space sends.
type sendWatch struct {
	sent  uint64    // packets
	since time.Time // when this number was first seen
}

// delay returns how long packets may wait.
func (w *sendWatch) delay(sent uint64, now time.Time) time.Duration {
	if sent != w.sent {
		w.sent, w.since = sent, now
	}
	if now.Sub(w.since) < coalesceAfter {
		return 0
	}
	return coalesceDelay
}
