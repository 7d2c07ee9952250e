package trial

import (
	"math/rand/v2"

	"sluice/lab/sim"
	"sluice/lab/sim/programs"
	"sluice/server"
)

// forward gives a relay that listens on a socket a kernel that forwards media, or none. The seed says which relays have
// one, and its habits.
func (s *service) forward(cfg *server.Config, c *sim.Conn, relay int) kernel {
	which := rand.New(rand.NewPCG(s.Seed, 3)).IntN(64)
	if which&48 == 0 || which&15>>(relay-1)&1 == 1 && which&16 == 0 {
		return nil
	}
	s.mu.Lock()
	s.starts++
	starts := s.starts
	s.mu.Unlock()
	habits := programs.NewHabits(rand.New(rand.NewPCG(s.Seed, 4+starts)))
	habits.Early = s.Early
	if most := s.carried(); most > 0 { // a path that loses more, or is late more often, carries less than guests await
		habits.Lose, habits.Late = min(habits.Lose/10, most), min(habits.Late, 0.01)
	}
	if s.Limits.Upload > 0 { // somebody sends so much that packets would wait for seconds behind runs that are late
		habits.Late = min(habits.Late, 0.01)
	}
	s.loses = s.loses || habits.Lose > 0
	k := programs.New(s.Seed<<8|starts, habits, c.Transmit)
	c.Attach(k)
	cfg.FastPath.Mode, cfg.FastPath.Open = server.FastPathOn, k.Open
	s.note("relay %d has a kernel: %+v", relay, habits)
	return k
}
