package media

import (
	"math/rand/v2"

	"sluice/clock"
	"sluice/internal/udp"
)

// Stepped is a loop with one shard and without goroutines, for simulations: it works when Step is called, in the time
// of a clock that stands still meanwhile. What it does depends on nothing else, so a simulation can be repeated.
type Stepped struct {
	*Loop
	shard *shard
}

// NewStepped returns a loop that writes its packets to a socket.
func NewStepped(cfg LoopConfig, c clock.Clock, sock udp.Socket) Stepped {
	l := newLoop(cfg, c)
	l.random = rand.New(rand.NewPCG(1, 1)).Uint64N
	sh := newShard(l, sock, new(udp.Counters))
	l.shards = []*shard{sh}
	return Stepped{l, sh}
}

// Step does all that can be done now, and returns when to call it again, unless something happens before: a log grows,
// a stream is opened, or the hooks of a sender are called.
func (s Stepped) Step() (next clock.Time) {
	for {
		feeds, senders, open := s.shard.take(nil, nil)
		if !open {
			return clock.Never
		}
		s.shard.serve(feeds, senders)
		if next = s.shard.alarms.next(); s.shard.idle() && next > s.clock.Now() {
			return next
		}
	}
}
