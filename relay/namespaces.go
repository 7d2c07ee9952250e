package relay

import (
	"cmp"
	"math"

	"sluice/moqt"
	"sluice/moqt/session"
)

// announcement is an accepted PUBLISH_NAMESPACE.
type announcement struct {
	peer      *peer
	namespace moqt.Namespace

	// Guarded by directory.mu.
	number uint64       // in the order of announcements
	path   moqt.HopPath // what it has come through, the peer last
	cost   uint64       // of a subscription by way of the peer
	over   bool         // withdrawn
}

// newAnnouncement returns the announcement of a namespace by a peer, with the parameters of its message.
func newAnnouncement(p *peer, ns moqt.Namespace, params moqt.Parameters) *announcement {
	a := &announcement{peer: p, namespace: ns}
	a.comes(params)
	return a
}

func (a *announcement) at() place { return a.peer.place(a.namespace) }

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
	if a.peer.awaitMatches(req.Context(), directory.countBelow(a.at())) != nil {
		return // the request is over
	}
	directory.announce(a) // before the answer: after it, the publisher may rely on being found
	defer directory.withdraw(a)
	if req.OK() != nil {
		return
	}
	permit.updated = func() { directory.moved(a, req.Parameters()) }
	permit.keep(nil)
}

// namespaceWatch is an accepted SUBSCRIBE_NAMESPACE.
type namespaceWatch struct {
	prefixWatch
	request *session.IncomingSubscribeNamespace
}

// foundLocked tells the peer about a namespace; directory.mu is held. Another relay is told of the best way to it.
func (w *namespaceWatch) foundLocked(a *announcement) {
	if w.peer.hops {
		w.changedLocked(a)
		return
	}
	if ns, ok := a.namespaceFor(w.peer); ok {
		_ = w.request.Add(ns, moqt.Parameters{}) // fails only if the request is over
	}
}

// changedLocked tells the peer what is left of a namespace of which an announcement has come, gone or changed;
// directory.mu is held.
func (w *namespaceWatch) changedLocked(a *announcement) {
	best := w.peer.relay.directory.bestLocked(a.at(), w.peer)
	if best == nil {
		w.lostLocked(a)
		return
	}
	if ns, ok := best.namespaceFor(w.peer); ok {
		_ = w.request.Add(ns, best.parameters()) // fails only if the request is over
	}
}

// lostLocked tells the peer that a namespace is not published any more; directory.mu is held.
func (w *namespaceWatch) lostLocked(a *announcement) {
	if ns, ok := a.namespaceFor(w.peer); ok {
		_ = w.request.Remove(ns) // fails only if the request is over
	}
}
