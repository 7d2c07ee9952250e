package main

import "time"

const (
	// coalescing is how long packets wait for others while the kernel forwards: short compared with the time between two frames, so that ACKs
	// still open congestion windows in time, and long compared with a burst.
	coalescing = 2 * time.Millisecond
	// hurry is how long they do not wait after the process has sent media: what the kernel has declined is often followed by more.
	hurry = 100 * time.Millisecond
)

// newCoalescing says how long packets may wait (see [transport.Config.Coalesce]). While the kernel forwards all media that comes, the process only
// caches it and keeps account of what was sent, which is not urgent.
func (s *relayServer) newCoalescing() func() time.Duration {
	var p patience
	return func() time.Duration {
		select {
		case <-s.ready:
		default:
			return 0
		}
		if s.loop == nil || s.fastPath == nil || !s.fastPath.Forwards() {
			return 0
		}
		return p.after(s.loop.Sent(), time.Now())
	}
}

// patience is how long packets may wait, by how much media the process sends.
type patience struct {
	sent uint64
	at   time.Time // when it was first seen
}

func (p *patience) after(sent uint64, now time.Time) time.Duration {
	if sent != p.sent {
		p.sent, p.at = sent, now
	}
	if now.Sub(p.at) < hurry {
		return 0
	}
	return coalescing
}
