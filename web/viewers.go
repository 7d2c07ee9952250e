package web

import (
	"net"
	"net/netip"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"sluice/transport"
)

// These limits bound the cost of counting viewers. A page asks every few seconds for each broadcast that it shows. One
// source has a quarter of the answers, so that it cannot keep others from theirs.
const (
	viewersPerSecond       = 200
	viewersPerSecondSource = viewersPerSecond / 4
	maxViewersSources      = 1 << 10 // that are remembered
)

// viewersLimit is the limit of answers about viewers, in all and for each source address.
type viewersLimit struct {
	total *rate.Limiter

	mu sync.Mutex
	of *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newViewersLimit() *viewersLimit {
	of, _ := lru.New[netip.Prefix, *rate.Limiter](maxViewersSources) // the size is valid
	return &viewersLimit{total: rate.NewLimiter(viewersPerSecond, viewersPerSecond), of: of}
}

// allow reports whether a client at an address may have an answer now.
func (v *viewersLimit) allow(remote string) bool {
	addr, _ := netip.ParseAddrPort(remote) // clients without an address share one source
	source := transport.SourceOf(net.UDPAddrFromAddrPort(addr))
	v.mu.Lock()
	l, ok := v.of.Get(source)
	if !ok {
		l = rate.NewLimiter(viewersPerSecondSource, viewersPerSecondSource)
		v.of.Add(source, l)
	}
	v.mu.Unlock()
	return l.Allow() && v.total.Allow()
}
