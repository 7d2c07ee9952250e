package transport

import (
	"net"
	"net/netip"
	"sync"
)

// maxUnvalidatedPerSource is how many connections of one source are accepted before its clients have to prove their
// addresses (Retry, RFC 9000 §8.1.2): somebody who forges addresses cannot use up more of the source's share. Home
// networks stay below it, so they do not lose a round trip.
const maxUnvalidatedPerSource = 16

// SourceOf returns whom an address counts for: an IPv4 address for itself, an IPv6 address for its /64, as networks
// give a whole /64 to a single host (RFC 6177).
func SourceOf(addr net.Addr) netip.Prefix {
	a := ipOf(addr)
	p, _ := a.Prefix(min(a.BitLen(), 64)) // the zero Prefix for an address that is not IP
	return p
}

func ipOf(addr net.Addr) netip.Addr {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().Unmap().WithZone("")
	}
	ap, _ := netip.ParseAddrPort(addr.String())
	return ap.Addr().Unmap().WithZone("")
}

// sources counts the QUIC connections of each source, handshakes included.
type sources struct {
	limit  int            // negative: none
	exempt []netip.Prefix // sources without limit

	mu sync.Mutex
	of map[netip.Prefix]int
}

// add counts a connection, unless its source has too many. It returns how many the source has; 0: it is exempt.
func (s *sources) add(addr net.Addr) (own int, ok bool) {
	p := SourceOf(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	exempt := s.isExempt(p)
	if s.limit >= 0 && s.of[p] >= s.limit && !exempt {
		return 0, false
	}
	s.of[p]++
	if exempt {
		return 0, true
	}
	return s.of[p], true
}

func (s *sources) remove(addr net.Addr) {
	p := SourceOf(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[p]--; s.of[p] == 0 {
		delete(s.of, p)
	}
}

// isSuspect reports whether further clients of a source have to prove their addresses.
func (s *sources) isSuspect(addr net.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[SourceOf(addr)] >= maxUnvalidatedPerSource
}

func (s *sources) isExempt(p netip.Prefix) bool {
	for _, e := range s.exempt {
		if e.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
