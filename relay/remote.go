package relay

import (
	"time"

	"sluice/moqt"
	"sluice/relay/internal/names"
)

// OriginPath is the path of the URL at which another relay asks this one as the origin of tracks: it gets what
// publishers of this relay have, and nothing that this one would have to ask other relays for. So requests of relays
// that ask each other come to an end.
const OriginPath = "/.origin"

// MirrorRemote returns a function that says that another relay, of a name, has a publisher for a namespace to which
// [Routes] lead, or has none any more. Those that watch the namespace are told, and tracks in it that have subscribers.
func (r *Relay) MirrorRemote(scope string) (changed func(relay string, ns moqt.Namespace, published bool)) {
	p := (&UpstreamRelay{relay: r, scope: scope}).newPeer() // it has no session
	m := names.NewMirror(p, &r.directory)
	return func(relay string, ns moqt.Namespace, published bool) {
		m.Changed(relay, ns, published, moqt.Parameters{})
	}
}

// FollowNamespaces calls f for each namespace of a scope in which peers publish that are connected to this process, or
// to another one of this relay: for the present ones at once, and from then on for each that appears or disappears.
// Such a namespace was announced (PUBLISH_NAMESPACE), or is that of a track that is offered (PUBLISH). What comes from
// upstream relays does not count. f may be told again what it knows. It is called with locks held: it must return at
// once and must not call the relay. stop ends the calls.
func (r *Relay) FollowNamespaces(scope string, f func(ns moqt.Namespace, published bool)) (stop func()) {
	p := &peer{terms: terms{reach: beside}, relay: r, scope: scope}
	return r.directory.names.Follow(p, func(ns moqt.Namespace, on bool, _ moqt.Parameters) { f(ns, on) })
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
