package relay

import (
	"cmp"
	"net/netip"
	"time"

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
		if !ready || p.reach < elsewhere || p.hopID() != 0 || r.accounts.IsExempt(source) {
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

// Redirect asks the client to go on at a URI (GOAWAY). Its session stays open, and refuses new requests. It fails if
// the client was asked before.
func (c *Client) Redirect(uri string) error { return c.peer.session.Goaway(uri, 0) }
