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

// sendWatch observes how much media user space sends on a socket. While the kernel forwards all media, user space only
// caches it and records packets, which is not urgent.
type sendWatch struct {
	server *Server
	socket int
	sent   uint64           // packets, at most so far
	since  time.Time        // when this number was first seen
	_      cpu.CacheLinePad // readers run on different processors
}

// look returns how long packets may wait (see [transport.ListenConfig.Coalesce]), and adapts the number of processors
// to the load. The socket's reader calls it before it sleeps.
func (w *sendWatch) look() time.Duration {
	s := w.server
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
		s.processors.look(now, w.sentByAll, cpuTime)
	}
	if s.fastPath.FastPath == nil || !s.fastPath.Forwards() {
		return 0
	}
	return w.delay(s.loop.SentOn(w.socket), now)
}

// sentByAll is how many packets with media the process has sent, at most.
func (w *sendWatch) sentByAll() uint64 {
	sent := w.server.loop.Sent()
	if f := w.server.fastPath.FastPath; f != nil {
		sent += f.ThreadsCopies()
	}
	return sent
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
