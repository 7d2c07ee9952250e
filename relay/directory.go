package relay

import (
	"sync"

	"sluice/moqt"
)

// directory finds the hubs of tracks by name, and the tracks and namespaces below a prefix.
type directory struct {
	relay *Relay

	mu         sync.Mutex
	hubs       map[string]*hub                             // by scope and name
	lastID     uint64                                      // of a hub
	tracks     watchedTree[*hub, *tracksWatch]             // all hubs; SUBSCRIBE_TRACKS
	namespaces watchedTree[*announcement, *namespaceWatch] // PUBLISH_NAMESPACE; SUBSCRIBE_NAMESPACE
	announced  uint64                                      // how many namespaces were, ever
	local      localNamespaces                             // of peers of this process
	ofLinks    localNamespaces                             // of peers of other processes of this relay
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

// offer offers a track to the peers that asked for such tracks (draft §9.5), and tells the other processes.
func (d *directory) offer(h *hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offerChangedLocked(h)
	for w := range d.tracks.watchers.matching(h.place) {
		w.foundLocked(h)
	}
}

// offerEnded is called when a publisher that has offered a track has gone.
func (d *directory) offerEnded(h *hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offerChangedLocked(h)
}

// offerChangedLocked tells others whether a publisher of this process offers a track; mu is held.
func (d *directory) offerChangedLocked(h *hub) {
	h.mu.Lock()
	offered := h.publishers.isOffered()
	h.mu.Unlock()
	switch {
	case offered && !h.local:
		d.local.add(h.place)
	case !offered && h.local:
		d.local.remove(h.place)
	}
	h.local = offered
	d.tellLinksLocked(h, offered)
}

// announce tells the peers that watch a namespace about it, and makes it a source of tracks that have subscribers
// (draft §9.5).
func (d *directory) announce(a *announcement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.over {
		return
	}
	d.announced++
	a.number = d.announced
	d.namespaces.values.add(a.at(), a)
	if l := a.peer.namespaces; l != nil {
		l.add(a.at())
	}
	for w := range d.namespaces.watchers.matching(a.at()) {
		w.foundLocked(a)
	}
	for h := range d.tracks.values.under(a.at()) {
		h.announced(a.peer)
	}
}

// offeredOnLink notes that a publisher of another process of this relay begins or ceases to offer a track at a place.
func (d *directory) offeredOnLink(at place, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if on {
		d.ofLinks.add(at)
	} else {
		d.ofLinks.remove(at)
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
	d.namespaces.values.remove(a.at(), a)
	if l := a.peer.namespaces; l != nil {
		l.remove(a.at())
	}
	for w := range d.namespaces.watchers.matching(a.at()) {
		w.changedLocked(a)
	}
}

// bestLocked returns the announcement of a place that a peer is told of, or nil; mu is held. Which one it is matters to
// other relays only.
func (d *directory) bestLocked(at place, to *peer) (best *announcement) {
	for a := range d.namespaces.values.at(at) {
		switch {
		case !a.mayReach(to):
		case !to.hops:
			return a
		case best == nil || a.compare(best) < 0:
			best = a
		}
	}
	return best
}

// wayTo returns what a relay is told with a namespace of this process.
func (d *directory) wayTo(ns moqt.Namespace, to *peer) moqt.Parameters {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := to.place(ns)
	if best := d.bestLocked(at, to); best != nil {
		return best.parameters()
	}
	for a := range d.namespaces.values.at(at) {
		if a.peer.serves(to) {
			return a.parameters() // the session does not send it
		}
	}
	return moqt.Parameters{HopPath: unknownPublisher}
}

// moved records that an announcement comes another way now, or at another cost.
func (d *directory) moved(a *announcement, p moqt.Parameters) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.comes(p)
	told := func(w *namespaceWatch) bool { return w.peer.hops }
	for w := range where(d.namespaces.watchers.matching(a.at()), told) {
		w.changedLocked(a)
	}
}

// revoke withdraws an announcement whose peer may no longer publish in the namespace, and ends what the relay gets from
// the peer because of it.
func (d *directory) revoke(a *announcement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.withdrawLocked(a) // first: two announcements that are revoked at once must not excuse each other
	for h := range d.tracks.values.under(a.at()) {
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

// linked asks a new link for the tracks that have subscribers and no publisher.
func (d *directory) linked(p *peer) {
	d.eachHub(func(h *hub) { h.publishers.subscribe(p) })
}
