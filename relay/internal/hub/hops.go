package hub

import "sluice/moqt"

// Relays may have each other as upstream relays, in circles of any length. What goes from relay to relay carries the
// Hop IDs that it has come through (draft-lcurley-moq-cluster, and for requests an agreement of Sluices). A session
// refuses what comes back; what is here sees to it that a relay does not wait for itself either: a subscriber is not
// fed with objects that have come through it, or by a peer that its request has come through.

// asker is who asks for a track: a peer, with the relays that its request has come through.
type asker struct {
	peer *Peer
	path moqt.HopPath
}

// mayUse reports whether another peer may be asked for the track.
func (a asker) mayUse(p *Peer) bool { return p.Serves(a.peer) && !a.path.Has(p.HopID()) }
