package server

import (
	"math"
	"runtime"
	"time"
)

// loadTime is the time over which the load is smoothed: a burst, such as a key frame for all subscribers, does not move
// tracks to other nodes, and subscribers that come do so before the node is full.
const loadTime = 10 * time.Second

// loadMeter measures how much of what a node may use is in use.
type loadMeter struct {
	server   *Server
	cpus     int     // that the process may use
	capacity float64 // of the link, in bits per second; 0: not known

	last  usage
	value float64 // smoothed
}

// usage is what a node uses.
type usage struct {
	at       time.Time
	sessions float64       // of those that there may be
	cpu      time.Duration // that the process has used so far
	bytes    uint64        // of media that were sent so far
}

// measure returns the load, from 0 to 1: that of whatever is scarcest. It is called at intervals.
func (m *loadMeter) measure(now usage) float64 {
	load, elapsed := now.sessions, now.at.Sub(m.last.at).Seconds()
	switch {
	case m.last.at.IsZero():
		m.value = math.Min(load, 1)
		m.last = now
		return m.value
	case elapsed <= 0:
		return m.value
	}
	load = math.Max(load, (now.cpu-m.last.cpu).Seconds()/elapsed/float64(m.cpus))
	if m.capacity > 0 {
		load = math.Max(load, float64(now.bytes-m.last.bytes)*8/elapsed/m.capacity)
	}
	m.last = now
	m.value += (math.Min(load, 1) - m.value) * (1 - math.Exp(-elapsed/loadTime.Seconds()))
	return m.value
}

// newLoadMeter returns a meter for a node whose link has a capacity, if that is known. The process may have lowered
// GOMAXPROCS, to adapt to the load.
func newLoadMeter(s *Server, capacity int) *loadMeter {
	m := &loadMeter{server: s, capacity: float64(capacity), cpus: runtime.GOMAXPROCS(0)}
	if s.processors != nil {
		m.cpus = s.processors.all
	}
	return m
}

// usage returns what the server uses. What was sent is only counted if the capacity of the link is known.
func (m *loadMeter) usage(now time.Time) usage {
	r := m.server.relay
	u := usage{at: now, cpu: cpuTime(), sessions: float64(r.OpenSessions()) / float64(max(1, r.MaxSessions()))}
	if m.capacity > 0 {
		u.bytes = m.server.loop.Stats().Counters.Bytes
	}
	return u
}
