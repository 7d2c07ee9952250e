package traffic

import (
	"fmt"
	"net/netip"
	"time"

	"sluice/rtt/internal/wire"
)

// dns is a query and its response.
type dns struct{ path }

func (d dns) step(g *generator, now time.Duration) time.Duration {
	m := wire.DNS{ID: uint16(g.rng.Uint32()), Name: fmt.Sprintf("host%d.example", g.rng.IntN(1e5)), Type: 1}
	resolver := netip.AddrPortFrom(d.server.Addr(), 53)
	query := wire.Frame(wire.UDP(d.customer, resolver, m.Message()))
	g.send(now, query, len(query))
	m.Response, m.Answers = true, 1
	response := wire.Frame(wire.UDP(resolver, d.customer, m.Message()))
	g.send(now+g.jitter(d.far), response, len(response))
	return 0
}

// ping is a number of echoes, one a second: a customer's to a server, or a server's to a customer.
type ping struct {
	path
	left         int
	sent         uint16
	fromInternet bool
}

func (p *ping) step(g *generator, now time.Duration) time.Duration {
	from, to, rtt := p.customer, p.server, p.far
	if p.fromInternet {
		from, to, rtt = p.server, p.customer, p.near
	}
	p.sent++
	e := wire.Echo{ID: p.customer.Port(), Seq: p.sent, Length: 56}
	request := wire.Frame(e.Between(from.Addr(), to.Addr()))
	g.send(now, request, len(request))
	e.Reply = true
	reply := wire.Frame(e.Between(to.Addr(), from.Addr()))
	g.send(now+g.jitter(rtt), reply, len(reply))
	if p.left--; p.left == 0 {
		return 0
	}
	return now + time.Second
}
