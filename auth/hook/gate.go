package hook

import (
	"context"
	"errors"
	"net/netip"
	"sync"
)

// Limits of a gate, besides the number of queries under way.
const (
	// maxPending is how many queries may be under way or wait. With 64 under way, each of 50 ms, the last one waits
	// less than a second.
	maxPending = 1024
	// maxPendingOfSource is how many of them may be for one source, which is an IPv4 address or an IPv6 /64: an eighth,
	// which is many for the peers behind one NAT, and leaves room for the others.
	maxPendingOfSource = maxPending / 8
)

var errOverloaded = errors.New("too many queries wait for the authorization service")

// gate limits the queries that are under way, and the queries that wait.
type gate struct {
	slots chan struct{} // one element for each query under way

	mu      sync.Mutex
	pending int                  // queries that are under way or wait
	of      map[netip.Prefix]int // the same by source
}

func newGate(n int) *gate {
	return &gate{slots: make(chan struct{}, n), of: make(map[netip.Prefix]int)}
}

// enter waits until a query may be sent. After it has returned nil, leave must be called.
func (g *gate) enter(ctx context.Context, source netip.Prefix) error {
	if !g.add(source) {
		return errOverloaded
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		g.remove(source)
		return ctx.Err()
	}
}

func (g *gate) leave(source netip.Prefix) {
	<-g.slots
	g.remove(source)
}

func (g *gate) add(source netip.Prefix) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending >= maxPending || g.of[source] >= maxPendingOfSource {
		return false
	}
	g.pending++
	g.of[source]++
	return true
}

func (g *gate) remove(source netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	if g.of[source]--; g.of[source] == 0 {
		delete(g.of, source)
	}
}
