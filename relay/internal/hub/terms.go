package hub

import (
	"time"

	"sluice/relay/internal/names"
)

// place is where a namespace is: its scope comes first.
type place = names.Place

// Distance is how far from this process a track is published.
type Distance uint8

const (
	Here      Distance = iota // by a peer that has connected to this process
	Beside                    // by a peer of another process of this relay
	Elsewhere                 // at another relay
)

// Terms are what a peer may bring, get and ask for, and how it is asked. They are made when the peer begins. Nothing
// else depends on which kind of peer it is:
//
//	                               from       reach      permission
//	publisher, subscriber          here       elsewhere  Authorizer
//	the relay's own session        here       elsewhere  Audience
//	relay that asks at OriginPath  here       beside     Authorizer
//	another process (a link)       beside     here       all
//	upstream relay                 elsewhere  here       namespaces announced to it
//
// So publishers of this process feed everybody. Other processes and upstream relays do not feed each other, and objects
// do not go round in circles.
type Terms struct {
	From     Distance      // of the tracks that it brings; the nearest peer is asked first
	Reach    Distance      // of the tracks that it may get, at most
	Patience time.Duration // for how long it is asked to wait for a publisher, at least
	Scoped   bool          // it names tracks and namespaces of all scopes
	Hidden   bool          // it is in no limit, quota, status, event or metric of peers
	URL      string        // of the upstream relay
	Hops     bool          // it is a relay whose messages carry the Hop IDs of those that they have come through
}

// IsRelay implements names.Peer.
func (t *Terms) IsRelay() bool { return t.Hops }
