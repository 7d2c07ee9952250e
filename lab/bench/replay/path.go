package replay

import (
	"math/rand/v2"
	"time"

	"sluice/clock"
)

// overhead is the length of the headers around a QUIC packet on the path: IPv4 and UDP.
const overhead = 28

// path is a bottleneck with a queue that drops packets which do not fit, and a delay. Everything on it is in order.
type path struct {
	changes []Change
	begin   clock.Time
	rng     *rand.Rand
	queued  int        // bytes that wait, with the packet that is being sent
	idle    clock.Time // when all of them have left
	lost    int        // packets
}

// at returns how the path is at a time.
func (p *path) at(now clock.Time) *Change {
	i := 0
	for i+1 < len(p.changes) && p.begin.Add(p.changes[i+1].At) <= now {
		i++
	}
	return &p.changes[i]
}

// forget drops changes that are over. Times before now are not asked for any more.
func (p *path) forget(now clock.Time) {
	for len(p.changes) > 1 && p.begin.Add(p.changes[1].At) <= now {
		p.changes = p.changes[1:]
	}
}

// send puts a packet of n bytes into the queue. It returns when the packet leaves the bottleneck. It reports false for
// a packet that is lost, also one that the bottleneck will not send before the end of the trace.
func (p *path) send(now clock.Time, n int) (leaves clock.Time, ok bool) {
	p.forget(now)
	c := p.at(now)
	n += overhead
	if p.rng.Float64() < c.Loss || p.queued+n > c.Queue {
		p.lost++
		return 0, false
	}
	leaves = p.finish(max(p.idle, now), n)
	if leaves == clock.Never {
		p.lost++
		return 0, false
	}
	p.idle = leaves
	p.queued += n
	return leaves, true
}

// left notes that a packet has left the queue.
func (p *path) left(n int) { p.queued -= n + overhead }

// finish returns when the bottleneck has sent n bytes, if it begins at a time.
func (p *path) finish(from clock.Time, n int) clock.Time {
	bits := float64(n) * 8
	for i, c := range p.changes {
		end := clock.Never
		if i+1 < len(p.changes) {
			end = p.begin.Add(p.changes[i+1].At)
		}
		if end <= from || c.Rate == 0 {
			from = max(from, end)
			continue
		}
		took := time.Duration(bits / float64(c.Rate) * float64(time.Second))
		if end == clock.Never || from.Add(took) <= end {
			return from.Add(took)
		}
		bits -= end.Sub(from).Seconds() * float64(c.Rate)
		from = end
	}
	return clock.Never
}

// delay returns how long a packet is under way, in one direction, besides its time in the queue.
func (p *path) delay(now clock.Time) time.Duration { return p.at(now).RTT / 2 }
