package relay

import (
	"math"
	"time"

	"sluice/moqt"
)

// OriginPath is the path of the URL at which another relay asks this one as the origin of tracks: it gets what
// publishers of this relay have, and nothing that this one would have to ask other relays for. So requests of relays
// that ask each other come to an end.
const OriginPath = "/.origin"

// Remote has the namespaces for which other relays have publishers, to which [Routes] lead. It makes them known to
// those that watch the namespaces, and to the tracks in them that have subscribers.
type Remote struct{ mirror mirror }

// NewRemote returns a Remote for a scope, without namespaces.
func (r *Relay) NewRemote(scope string) *Remote {
	p := (&UpstreamRelay{relay: r, scope: scope}).newPeer() // it has no session
	p.names = math.MaxInt
	return &Remote{newMirror(p)}
}

// Add says that one more relay has a publisher for a namespace.
func (x *Remote) Add(ns moqt.Namespace) { x.mirror.add(ns, moqt.Parameters{}, true) }

// Remove is the reverse of Add.
func (x *Remote) Remove(ns moqt.Namespace) { x.mirror.remove(ns) }

// reroute makes the tracks at and below a place look again at which upstream relay to subscribe.
func (d *directory) reroute(at place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.tracks.values.under(at) {
		h.mu.Lock()
		h.rerouteLocked()
		h.mu.Unlock()
	}
}

// CountFed returns how many tracks each upstream relay feeds.
func (r *Relay) CountFed() map[*UpstreamRelay]int {
	counts := make(map[*UpstreamRelay]int)
	r.directory.eachHub(func(h *hub) {
		for u := range h.publishers.where(broughtFrom(elsewhere)) {
			counts[u.peer.upstream]++
		}
	})
	return counts
}

// UpstreamStatus describes an upstream relay.
type UpstreamStatus struct {
	Connected bool
	Down      bool          // the last attempt to connect has failed
	Lost      bool          // there is no session any more, or it takes no new requests
	RTT       time.Duration // smoothed; 0 if there is no session
	Requests  int           // that are open in the session
}

// Status describes the session with the relay.
func (u *UpstreamRelay) Status() UpstreamStatus {
	p, connecting := u.current()
	if p == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		return UpstreamStatus{Down: !connecting, Lost: u.begun}
	}
	return UpstreamStatus{Connected: true, RTT: p.conn.RTT(), Requests: p.session.OpenRequests()}
}
