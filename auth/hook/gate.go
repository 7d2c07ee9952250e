package hook

import (
	"context"
	"errors"
	"sync"
)

// Limits of a gate, besides the number of queries under way.
const (
	// maxPending is how many queries may be under way or wait. With 64 under way, each of 50 ms, the last one waits
	// less than a second.
	maxPending = 1024
	// maxPendingOfAddress is how many of them may be for one address: an eighth, which is many for the peers behind one
	// NAT, and leaves room for the others.
	maxPendingOfAddress = maxPending / 8
)

var errOverloaded = errors.New("too many queries wait for the authorization service")

// gate limits the queries that are under way, and those that wait to be.
type gate struct {
	slots chan struct{} // one element for each query under way

	mu      sync.Mutex
	pending int            // queries that are under way or wait
	of      map[string]int // the same by address
}

func newGate(n int) *gate { return &gate{slots: make(chan struct{}, n), of: make(map[string]int)} }

// enter waits until a query may be sent. After it has returned nil, leave must be called.
func (g *gate) enter(ctx context.Context, address string) error {
	if !g.add(address) {
		return errOverloaded
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		g.remove(address)
		return ctx.Err()
	}
}

func (g *gate) leave(address string) {
	<-g.slots
	g.remove(address)
}

func (g *gate) add(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending >= maxPending || g.of[address] >= maxPendingOfAddress {
		return false
	}
	g.pending++
	g.of[address]++
	return true
}

func (g *gate) remove(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	if g.of[address]--; g.of[address] == 0 {
		delete(g.of, address)
	}
}
