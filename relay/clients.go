package relay

import (
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

// Redirect asks the client to go on at a URI (GOAWAY). Its session stays open, and refuses new requests. It fails if
// the client was asked before.
func (c *Client) Redirect(uri string) error { return c.peer.Session.Goaway(uri, 0) }
