package relay

import (
	"time"

	"sluice/moqt"
)

// OriginPath is the path of the URL at which another relay asks this one as the origin of tracks: it gets what
// publishers of this relay have, and nothing that this one would have to ask other relays for. So requests of relays
// that ask each other come to an end.
const OriginPath = "/.origin"

// AnnounceRemote makes a namespace known for which another relay has a publisher, to which [Routes] lead: to those that
// watch the namespace, and to the tracks in it that have subscribers. withdraw ends that.
func (r *Relay) AnnounceRemote(scope string, ns moqt.Namespace) (withdraw func()) {
	a := newAnnouncement(r.elsewhere(scope), ns, moqt.Parameters{})
	r.directory.announce(a)
	return func() {
		r.directory.withdraw(a)
		r.directory.reroute(a.at())
	}
}

// elsewhere returns a peer that stands for publishers at other relays. It has no session: the Routes say which
// upstream relay to ask.
func (r *Relay) elsewhere(scope string) *peer {
	return (&UpstreamRelay{relay: r, scope: scope}).newPeer()
}

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
