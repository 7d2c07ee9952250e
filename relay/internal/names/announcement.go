package names

import (
	"cmp"
	"math"
	"slices"

	"sluice/moqt"
)

// UnknownPublisher is the path of what comes from somebody without a Hop ID.
var UnknownPublisher = moqt.HopPath{0}

// Announcement says that a peer, or another one that it stands for, publishes in a namespace: an accepted
// PUBLISH_NAMESPACE, or what a Mirror shows.
type Announcement[P Peer[P]] struct {
	Peer  P
	Place Place

	// Guarded by Space.mu.
	number uint64       // in the order of announcements; 0: not known yet
	path   moqt.HopPath // what it has come through, the peer last
	cost   uint64       // of a subscription by way of the peer
	over   bool         // withdrawn
}

// comes records the way that an announcement has come, and what it costs to subscribe that way.
func (a *Announcement[P]) comes(way moqt.Parameters) {
	a.path, a.cost = way.HopPath, way.Cost()
	if a.path == nil {
		a.path = UnknownPublisher
	}
	a.cost += min(a.Peer.Cost(), math.MaxUint64-a.cost)
}

// way returns what other relays are told with the namespace.
func (a *Announcement[P]) way() moqt.Parameters {
	cost := a.cost
	return moqt.Parameters{HopPath: a.path, RouteCost: &cost}
}

// mayReach reports whether a peer may be told of the announcement.
func (a *Announcement[P]) mayReach(p P) bool { return a.Peer.Serves(p) && p.Takes(a.path) }

// compare orders announcements of a namespace: the cheapest comes first, then the shortest path, then the oldest.
func (a *Announcement[P]) compare(b *Announcement[P]) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(len(a.path), len(b.path)), cmp.Compare(a.number, b.number))
}

// Offer is a track that peers may offer (PUBLISH).
type Offer[P Peer[P]] struct {
	Place Place
	Track string
	by    []P // once for each time; guarded by Space.mu
}

// isFor reports whether a peer may be told that the track is offered.
func (o *Offer[P]) isFor(p P) bool {
	return slices.ContainsFunc(o.by, func(by P) bool { return by.Serves(p) })
}
