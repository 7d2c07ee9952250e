package relay

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"sluice/media"
	"sluice/transport"
)

// Client is a session with a publisher or a subscriber. A peer that is known to be a relay is not one.
type Client struct {
	Source netip.Prefix // whom its address counts for
	Kind   transport.Kind
	Path   string // of the URL that it has dialed, with the query
	Began  time.Time
	MinRTT time.Duration // 0: not measured
	// Implementation is the name of the client's implementation, as it says. Those that are known to end when they get
	// GOAWAY say none.
	Implementation string

	peer *peer
}

// Clients returns the sessions of clients. A peer with a Hop ID, or with an address that is exempt from quotas, may be
// a relay.
func (r *Relay) Clients() (list []Client) {
	for _, p := range r.sessions.direct() {
		source := transport.SourceOf(p.remote())
		name, ready := p.implementation()
		if !ready || p.reach < elsewhere || p.hopID() != 0 || r.accounts.isExempt(source) {
			continue
		}
		c := Client{
			Source: source, Kind: p.conn.Kind(), Path: cmp.Or(p.conn.Path(), p.setup.Path), Began: p.since,
			MinRTT: p.minRTT(), Implementation: name, peer: p,
		}
		list = append(list, c)
	}
	return list
}

// minRTT returns the shortest round-trip time of packets with media. Without media it is the smoothed one of others:
// QUIC has measured the handshake at least.
func (p *peer) minRTT() time.Duration {
	if m, ok := p.conn.Hooks().(*media.Sender); ok {
		if rtt := m.Stats().MinRTT; rtt > 0 {
			return rtt
		}
	}
	return p.conn.RTT()
}

// Redirect asks the client to go on at a URI (GOAWAY). Its session stays open, and refuses new requests. It fails if
// the client was asked before.
func (c *Client) Redirect(uri string) error { return c.peer.session.Goaway(uri, 0) }

// direct returns the peers that have connected to this process.
func (s *sessions) direct() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.peers))
}
