package relay

import (
	"slices"
	"time"

	"sluice/moqt"
)

// Routes says which upstream relays may have the tracks that no publisher of this process has. See [Relay.SetRoutes].
type Routes interface {
	// Upstreams returns the upstream relays that may have the tracks of a namespace, the preferred one first. The relay
	// asks the first one that is connected, and the next if that has no publisher. It calls this method with locks
	// held: the method must return at once and must not call the relay.
	Upstreams(scope string, ns moqt.Namespace) []*UpstreamRelay
}

// noRoutes are the Routes of a relay that has dialed no other.
type noRoutes struct{}

// Upstreams implements Routes.
func (noRoutes) Upstreams(string, moqt.Namespace) []*UpstreamRelay { return nil }

// Route names the upstream relays for the namespaces with a prefix, the preferred one first.
type Route struct {
	Prefix    moqt.Namespace
	Upstreams []*UpstreamRelay
}

// RouteTable is a [Routes] that does not change. Of the routes in a scope, the one with the longest prefix counts.
type RouteTable []Route

// Upstreams implements Routes.
func (t RouteTable) Upstreams(scope string, ns moqt.Namespace) (best []*UpstreamRelay) {
	length := -1
	for _, r := range t {
		if len(r.Prefix) <= length || !ns.HasPrefix(r.Prefix) {
			continue
		}
		inScope := func(u *UpstreamRelay) bool { return u.scope == scope }
		if in := slices.Collect(where(slices.Values(r.Upstreams), inScope)); len(in) > 0 {
			best, length = in, len(r.Prefix)
		}
	}
	return best
}

// SetRoutes replaces the routes. Default: there are none.
func (r *Relay) SetRoutes(routes Routes) {
	r.routes.Store(&routes)
	r.Reroute()
}

// Reroute makes the relay look again where to subscribe. It has to be called when the answers of the Routes have
// changed. A track moves to the upstream relay that is preferred now without a gap: both bring it for a moment.
func (r *Relay) Reroute() {
	r.directory.eachHub((*hub).rerouteLocked)
}

// reroute makes the track look again where to subscribe and fetch.
func (h *hub) reroute() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rerouteLocked()
}

// rerouteLocked makes the track look again where to subscribe and fetch; mu is held.
func (h *hub) rerouteLocked() {
	if len(h.subscribers.all) > 0 {
		h.publishers.askRelays()
	}
	h.publishersChangedLocked()
}

// Routes returns what SetRoutes has set last.
func (r *Relay) Routes() Routes { return *r.routes.Load() }

// upstreamsOf returns the upstream relays that may have a track at a place.
func (r *Relay) upstreamsOf(at place) []*UpstreamRelay {
	return r.Routes().Upstreams(at[0], at[1:])
}

// upstreamPeers returns the sessions with these upstream relays, as far as there are some, and reports whether there
// may be another one soon.
func (r *Relay) upstreamPeers(at place) (peers []*peer, connecting bool) {
	for _, u := range r.upstreamsOf(at) {
		p, soon := u.current()
		if p != nil {
			peers = append(peers, p)
		}
		connecting = connecting || soon
	}
	return peers, connecting
}

// relayChoice is what publishers knows about the upstream relays that may have the track.
type relayChoice struct {
	refused    map[*peer]struct{} // they had no publisher when they were asked last
	latest     time.Time          // when the latest of them refused
	connecting bool               // one of them may be connected soon, and none is
	surplus    *time.Timer        // runs while subscriptions are kept that are not needed any more
}

// begin lets the upstream relays be asked that have refused before.
func (c *relayChoice) begin() { clear(c.refused) }

// beginLater is begin for a new subscriber, and reports whether no refusal counts any more. A refusal counts for
// firstAsk: the subscriber may be the relay that has just refused, and two relays that refuse each other would
// otherwise ask each other without end.
func (c *relayChoice) beginLater() bool {
	if time.Since(c.latest) >= firstAsk {
		c.begin()
	}
	return len(c.refused) == 0
}

func (c *relayChoice) refuse(p *peer) {
	if c.refused == nil {
		c.refused = make(map[*peer]struct{})
	}
	c.refused[p] = struct{}{}
	c.latest = time.Now()
}

// askRelays subscribes at the first upstream relay that is connected and has not refused, if subscribers of this
// process need one.
func (s *publishers) askRelays() {
	s.relays.connecting = false
	if s.hub.subscribers.reach(elsewhere) && !s.haveNear(false) {
		s.chooseRelay()
	}
	s.settleRelays()
}

func (s *publishers) chooseRelay() {
	for _, r := range s.hub.relay.upstreamsOf(s.hub.place) {
		p, connecting := r.current()
		if p == nil {
			s.relays.connecting = s.relays.connecting || connecting
			continue
		}
		u := s.of[p]
		if u == nil && s.mayAsk(p) {
			u = newUpstream(s.hub, p)
			s.start(u)
		}
		if u != nil && (u.established || !u.standing) {
			s.relays.connecting = false
			return
		}
	}
}

// mayAsk reports whether an upstream relay can be asked, that has neither refused nor just ended a subscription.
func (s *publishers) mayAsk(p *peer) bool {
	_, refused := s.relays.refused[p]
	return !refused && !time.Now().Before(s.retry[p]) && s.mayUse(p)
}

// haveNear reports whether a publisher of this machine has accepted, or, unless only that counts, may accept soon: one
// that is connected to this process, or to another one of this relay.
func (s *publishers) haveNear(accepted bool) bool {
	return s.have(func(u *upstream) bool {
		return u.peer.from < elsewhere && (u.established || !accepted && !u.standing)
	})
}

// settleRelays ends the subscriptions at upstream relays that are not needed any more, after Config.Linger, and when
// they have brought the groups that were missed: until then they bring the end of the group that they have begun.
func (s *publishers) settleRelays() {
	if s.relays.surplus != nil || len(s.surplusRelays()) == 0 {
		return
	}
	s.relays.surplus = s.hub.after(s.hub.relay.cfg.Linger, func() {
		s.relays.surplus = nil
		for _, u := range s.surplusRelays() {
			u.cancelLocked(moqt.ResetCancelled)
		}
	})
}

// surplusRelays returns the subscriptions at upstream relays that are not needed, because a publisher is near, because
// a preferred relay has the track, or because no subscriber of this process is left.
func (s *publishers) surplusRelays() []*upstream {
	list := slices.Collect(s.where(func(u *upstream) bool {
		return u.peer.from == elsewhere && !u.over && !u.refilling
	}))
	if len(list) == 0 {
		return nil
	}
	needed, known := s.neededRelays()
	return slices.DeleteFunc(list, func(u *upstream) bool { return !known || slices.Contains(needed, u) })
}

// neededRelays returns the subscriptions at upstream relays to keep, and whether it is known yet: as long as none of
// the relays that are connected has the track, all are.
func (s *publishers) neededRelays() (needed []*upstream, known bool) {
	own := s.hub.subscribers.reach(elsewhere) || len(s.hub.subscribers.waiting) > 0
	if s.haveNear(true) {
		return nil, true
	}
	relays, _ := s.hub.relay.upstreamPeers(s.hub.place)
	for _, p := range relays {
		u := s.of[p]
		if u != nil && (own || u.offered) {
			needed = append(needed, u)
		}
		if u != nil && u.established && own {
			return needed, true
		}
	}
	return needed, !own
}
