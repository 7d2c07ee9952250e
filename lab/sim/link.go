package sim

import (
	"math/rand/v2"
	"time"
)

// Link is what happens to packets from one host to another. The zero value delivers them at once.
type Link struct {
	Delay, Jitter time.Duration // a packet takes Delay, and up to Jitter more: so packets overtake each other
	Loss          float64       // the share of packets that are lost at random
	Burst         Burst         // losses that come together
	Duplicate     float64       // the share of packets that arrive twice
	Corrupt       float64       // the share of packets of which one bit is wrong
	MTU           int           // longer packets are lost, in bytes of UDP payload; 0: there is no limit
	Rate          int           // bytes a second; 0: there is no limit
	Queue         time.Duration // with Rate: packets that would wait longer are lost
	Down          bool          // all packets are lost
}

// Burst is the Gilbert-Elliott model: a link changes between a good state and a bad one, in which it loses packets.
// The states change with packets, so without Lasts a burst lasts for seconds if packets are rare: a client that tries
// again later and later, as QUIC does, loses each try.
type Burst struct {
	Begin float64       // the probability that a packet finds the link newly bad
	End   float64       // the probability that a packet finds the link newly good
	Loss  float64       // the share of packets that are lost while the link is bad
	Lasts time.Duration // after this time a link is good again; 0: only packets change it
}

// path is a Link in use.
type path struct {
	bad   bool
	began time.Time // when it became bad
	free  time.Time // when the link has sent all that it was given, with Rate
}

// carry returns the times at which a packet arrives: none if it is lost, two if it is duplicated.
func (p *path) carry(l *Link, size int, now time.Time, rng *rand.Rand) (arrivals []time.Time) {
	if l.Down || l.MTU > 0 && size > l.MTU || p.loses(l, now, rng) {
		return nil
	}
	if l.Rate > 0 {
		if p.free.Before(now) {
			p.free = now
		}
		if p.free.Sub(now) > l.Queue {
			return nil
		}
		p.free = p.free.Add(time.Duration(size) * time.Second / time.Duration(l.Rate))
		now = p.free
	}
	copies := 1
	if rng.Float64() < l.Duplicate {
		copies = 2
	}
	for range copies {
		at := now.Add(l.Delay)
		if l.Jitter > 0 {
			at = at.Add(time.Duration(rng.Int64N(int64(l.Jitter))))
		}
		arrivals = append(arrivals, at)
	}
	return arrivals
}

// loses decides about a packet, and moves the link to its next state.
func (p *path) loses(l *Link, now time.Time, rng *rand.Rand) bool {
	if p.bad && l.Burst.Lasts > 0 && now.Sub(p.began) >= l.Burst.Lasts {
		p.bad = false
	}
	change := l.Burst.Begin
	if p.bad {
		change = l.Burst.End
	}
	if rng.Float64() < change {
		p.bad, p.began = !p.bad, now
	}
	return rng.Float64() < l.Loss || p.bad && rng.Float64() < l.Burst.Loss
}
