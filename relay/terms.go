package relay

import (
	"time"

	"sluice/relay/internal/names"
)

// place is where a namespace is: its scope comes first.
type place = names.Place

// distance is how far from this process a track is published.
type distance uint8

const (
	here      distance = iota // by a peer that has connected to this process
	beside                    // by a peer of another process of this relay
	elsewhere                 // at another relay
)

// terms are what a peer may bring, get and ask for, and how it is asked. They are made when the peer begins. Nothing
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
type terms struct {
	from     distance      // of the tracks that it brings; the nearest peer is asked first
	reach    distance      // of the tracks that it may get, at most
	patience time.Duration // for how long it is asked to wait for a publisher, at least
	refills  bool          // groups that were missed are fetched from it
	scoped   bool          // it names tracks and namespaces of all scopes
	hidden   bool          // it is in no limit, quota, status, event or metric of peers
	url      string        // of the upstream relay
	hops     bool          // it is a relay whose messages carry the Hop IDs of those that they have come through
}

// IsRelay implements names.Peer.
func (t *terms) IsRelay() bool { return t.hops }
