package relay

import (
	"cmp"
	"math"
	"math/rand/v2"

	"sluice/moqt"
)

// Relays may have each other as upstream relays, in circles of any length. What goes from relay to relay carries the
// Hop IDs that it has come through (draft-lcurley-moq-cluster, and for requests an agreement of Sluices). A session
// refuses what comes back; what is here sees to it that a relay does not wait for itself either: a subscriber is not
// fed with objects that have come through it, or by a peer that its request has come through.

// randomHopID returns a Hop ID for this process. Some relays take 62 bits.
func randomHopID() uint64 { return 1 + rand.Uint64N(1<<62-1) }

// hopID returns the Hop ID of the peer, or 0 if it has none.
func (p *peer) hopID() uint64 { return p.setup.HopID }

// unknownPublisher is the path of what comes from somebody without a Hop ID.
var unknownPublisher = moqt.HopPath{0}

// newAnnouncement returns the announcement of a namespace by a peer, with the parameters of its message.
func newAnnouncement(p *peer, ns moqt.Namespace, params moqt.Parameters) *announcement {
	a := &announcement{peer: p, namespace: ns}
	a.comes(params)
	return a
}

// comes records the way that an announcement has come, and what it costs to subscribe that way.
func (a *announcement) comes(params moqt.Parameters) {
	a.path, a.cost = params.HopPath, params.Cost()
	if a.path == nil {
		a.path = unknownPublisher
	}
	charge := uint64(1) // the default
	if a.peer.setup.Hops != moqt.NoHops {
		charge = a.peer.setup.Cost
	}
	a.cost += min(charge, math.MaxUint64-a.cost)
}

// parameters returns what other relays are told with the namespace.
func (a *announcement) parameters() moqt.Parameters {
	return moqt.Parameters{HopPath: a.path, RouteCost: &a.cost}
}

// mayReach reports whether a peer may be told of the announcement.
func (a *announcement) mayReach(p *peer) bool { return a.peer.serves(p) && p.takes(a.path) }

// takes reports whether a peer may get what has come through a path.
func (p *peer) takes(path moqt.HopPath) bool {
	if p.setup.Hops == moqt.NoHops {
		return true
	}
	_, err := path.Through(p.relay.cfg.Session.HopID)
	return err == nil && !path.Has(p.hopID())
}

// compare orders announcements of a namespace: the cheapest comes first, then the shortest path, then the oldest.
func (a *announcement) compare(b *announcement) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(len(a.path), len(b.path)), cmp.Compare(a.number, b.number))
}

// bestLocked returns the announcement of a place that a peer is told of, or nil; mu is held. Which one it is matters to
// other relays only.
func (d *directory) bestLocked(at place, to *peer) (best *announcement) {
	for a := range d.namespaces.values.at(at) {
		switch {
		case !a.mayReach(to):
		case to.setup.Hops == moqt.NoHops:
			return a
		case best == nil || a.compare(best) < 0:
			best = a
		}
	}
	return best
}
