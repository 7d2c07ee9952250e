package relay

import (
	"maps"
	"sync"

	"sluice/moqt"
)

// directory finds the hubs of tracks by name, and the tracks and namespaces below a prefix.
type directory struct {
	relay *Relay

	mu         sync.Mutex
	hubs       map[string]*hub                             // by scope and name
	lastID     uint64                                      // of a hub
	tracks     watchedTree[*hub, trackWatcher]             // all hubs; SUBSCRIBE_TRACKS, and who follows
	namespaces watchedTree[*announcement, *namespaceWatch] // PUBLISH_NAMESPACE; SUBSCRIBE_NAMESPACE, and who follows
	announced  uint64                                      // how many namespaces were, ever
}

// acquire returns the hub of the track with a name at a place, unless there are too many. The hub exists at least until
// it is released. If it is new, it counts for the quotas of the accounts as long as it exists.
func (d *directory) acquire(at place, name string, ps payers) (*hub, *moqt.RequestError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := moqt.FullTrackName{Namespace: at, Name: name}.Key()
	h := d.hubs[key]
	if h == nil {
		if len(d.hubs) >= d.relay.cfg.MaxTracks {
			return nil, errTooManyTracks
		}
		if refused := ps.take(tracksHeld); refused != nil {
			return nil, refused
		}
		h = newHub(d.relay, at, name)
		d.lastID++
		h.id, h.payers = d.lastID, ps
		d.hubs[key] = h
		d.tracks.values.add(at, h)
	}
	h.refs++
	return h, nil
}

func (d *directory) release(h *hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.refs--
}

// sweep drops the hubs that no request uses and that hold nothing.
func (d *directory) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, h := range d.hubs {
		if h.refs == 0 && h.isIdle() {
			delete(d.hubs, key)
			d.tracks.values.remove(h.place, h)
			h.payers.give(tracksHeld)
			h.fast.track.Close()
			h.track().Close()
		}
	}
}

// eachHub calls f for all hubs, with their locks held.
func (d *directory) eachHub(f func(*hub)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hubs {
		h.mu.Lock()
		f(h)
		h.mu.Unlock()
	}
}

func (d *directory) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.hubs)
}

// countBelow returns the number of tracks at and below a place.
func (d *directory) countBelow(at place) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tracks.values.count(at)
}

// sum returns a function that adds up n of all hubs.
func (d *directory) sum(n func(*hub) int) func() int {
	return func() (total int) {
		d.eachHub(func(h *hub) { total += n(h) })
		return total
	}
}

// offer offers a track to the peers that asked for such tracks (draft §9.5). It is called when publishers have begun or
// ceased to offer it, and when the first one brings it.
func (d *directory) offer(h *hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.mu.Lock()
	h.offered = h.publishers.offered()
	h.mu.Unlock()
	for w := range d.tracks.watchers.matching(h.place) {
		w.changedLocked(h)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.publishers.areEstablished() {
		clear(h.subscribers.waiting)
	}
	h.demand.update()
}

// announce makes an announcement known, or that it comes another way now: it tells the peers that watch the namespace,
// and makes it a source of tracks that have subscribers (draft §9.5).
func (d *directory) announce(a *announcement, params moqt.Parameters) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.over {
		return
	}
	a.comes(params)
	if a.number == 0 {
		d.announced++
		a.number = d.announced
		d.namespaces.values.add(a.place, a)
	}
	for w := range d.namespaces.watchers.matching(a.place) {
		w.changedLocked(a)
	}
	for h := range d.tracks.values.under(a.place) {
		h.announced(a.peer)
	}
}

// withdraw is the reverse of announce. Subscriptions at the publisher go on.
func (d *directory) withdraw(a *announcement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.withdrawLocked(a)
}

// withdrawLocked withdraws an announcement, or prevents it; mu is held.
func (d *directory) withdrawLocked(a *announcement) {
	known := a.number > 0 && !a.over
	a.over = true
	if !known {
		return
	}
	d.namespaces.values.remove(a.place, a)
	for w := range d.namespaces.watchers.matching(a.place) {
		w.changedLocked(a)
	}
}

// wayLocked returns what a peer is told with a place in which others publish, or false if it is told of none; mu is
// held. Which of several announcements it is matters to other relays only. A peer that follows tracks, too, is told of
// a place with nothing but these.
func (d *directory) wayLocked(at place, to *peer, tracks bool) (p moqt.Parameters, found bool) {
	var best *announcement
	for a := range where(maps.Keys(d.namespaces.values.at(at)), func(a *announcement) bool { return a.mayReach(to) }) {
		if best == nil || a.compare(best) < 0 {
			best = a
		}
		if !to.hops {
			break
		}
	}
	if best != nil {
		return best.parameters(), true
	}
	offered := func(h *hub) bool { return h.offered <= to.reach }
	return moqt.Parameters{HopPath: unknownPublisher}, tracks && some(maps.Keys(d.tracks.values.at(at)), offered)
}

// revoke withdraws an announcement whose peer may no longer publish in the namespace, and ends what the relay gets from
// the peer because of it.
func (d *directory) revoke(a *announcement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.withdrawLocked(a) // first: two announcements that are revoked at once must not excuse each other
	for h := range d.tracks.values.under(a.place) {
		d.unpublishedLocked(h, a.peer)
	}
}

// unpublished ends what the relay gets of a track from a peer that has lost a permission to publish it, unless the peer
// has another one.
func (d *directory) unpublished(h *hub, p *peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unpublishedLocked(h, p)
}

func (d *directory) unpublishedLocked(h *hub, p *peer) {
	if !d.isAnnouncedLocked(h.place, p) {
		h.revoked(p)
	}
}

// isAnnounced reports whether a peer has announced a place, or a place above it.
func (d *directory) isAnnounced(at place, p *peer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.isAnnouncedLocked(at, p)
}

func (d *directory) isAnnouncedLocked(at place, p *peer) bool {
	return some(d.namespaces.values.matching(at), func(a *announcement) bool { return a.peer == p })
}

// publishersOf returns the peers that may publish a track at a place: those that announced its namespace or a prefix of
// it, and then, within reach, the links. Upstream relays come later: see publishers.askRelays.
func (d *directory) publishersOf(at place, reach distance) []*peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	var peers []*peer
	for a := range d.namespaces.values.matching(at) {
		if a.peer.from == here {
			peers = append(peers, a.peer)
		}
	}
	if reach >= beside {
		peers = append(peers, d.relay.links.list()...)
	}
	return peers
}
