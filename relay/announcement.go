package relay

import (
	"cmp"
	"math"

	"sluice/moqt"
	"sluice/moqt/session"
)

// announcement says that a peer, or another one that it stands for, publishes in a namespace: an accepted
// PUBLISH_NAMESPACE, or what a mirror shows.
type announcement struct {
	peer  *peer
	place place

	// Guarded by directory.mu.
	number uint64       // in the order of announcements; 0: not known yet
	path   moqt.HopPath // what it has come through, the peer last
	cost   uint64       // of a subscription by way of the peer
	over   bool         // withdrawn
}

// at returns where the announcement is in the directory's tree.
func (a *announcement) at() place { return a.place }

// comes records the way that an announcement has come, and what it costs to subscribe that way.
func (a *announcement) comes(params moqt.Parameters) {
	a.path, a.cost = params.HopPath, params.Cost()
	if a.path == nil {
		a.path = unknownPublisher
	}
	a.cost += min(a.peer.cost, math.MaxUint64-a.cost)
}

// parameters returns what other relays are told with the namespace.
func (a *announcement) parameters() moqt.Parameters {
	cost := a.cost
	return moqt.Parameters{HopPath: a.path, RouteCost: &cost}
}

// mayReach reports whether a peer may be told of the announcement.
func (a *announcement) mayReach(p *peer) bool { return a.peer.serves(p) && p.takes(a.path) }

// compare orders announcements of a namespace: the cheapest comes first, then the shortest path, then the oldest.
func (a *announcement) compare(b *announcement) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(len(a.path), len(b.path)), cmp.Compare(a.number, b.number))
}

// serve accepts the request, and keeps the namespace known until the request ends.
func (a *announcement) serve(req *session.IncomingPublishNamespace, permit *permission) {
	directory := &a.peer.relay.directory
	permit.hold(func(why *moqt.RequestError) {
		directory.revoke(a)
		permit.cancel(why)
	})
	if a.peer.awaitMatches(req.Context(), directory.countBelow(a.place)) != nil {
		return // the request is over
	}
	permit.updated = func() { directory.announce(a, req.Parameters()) }
	permit.updated() // before the answer: after it, the publisher may rely on being found
	defer directory.withdraw(a)
	if req.OK() != nil {
		return
	}
	permit.keep(nil)
}
