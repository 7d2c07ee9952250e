package relay

import (
	"maps"
	"slices"
	"strings"

	"sluice/moqt"
)

const (
	// trackMark comes before the scope in namespaces that stand for tracks.
	trackMark = "+"
	// nameMark comes before the track's name, which may be empty.
	nameMark = "="
)

// Links tell of the tracks that publishers have offered (PUBLISH), for subscribers that have sent SUBSCRIBE_TRACKS to
// another process. They do so as of namespaces, in answer to the same SUBSCRIBE_NAMESPACE: such a namespace has a mark
// of its own, and the name of the track as its last field. A process of an older version ignores these.

// offerOnLink is the namespace by which links tell of the track, and whether they can.
func (h *hub) offerOnLink() (moqt.Namespace, bool) {
	ns := append(placeOf(trackMark+h.place[0], h.place[1:]), nameMark+h.name.Name)
	return ns, ns.Validate() == nil
}

// trackOnLink is the reverse. It returns false if the namespace stands for no track.
func trackOnLink(ns moqt.Namespace) (at place, name string, ok bool) {
	if len(ns) < 2 {
		return nil, "", false
	}
	scope, marked := strings.CutPrefix(ns[0], trackMark)
	name, named := strings.CutPrefix(ns[len(ns)-1], nameMark)
	return placeOf(scope, ns[1:len(ns)-1]), name, marked && named
}

// tellLinksLocked tells the other processes whether a publisher of this one offers a track; d.mu is held.
func (d *directory) tellLinksLocked(h *hub, offered bool) {
	ns, ok := h.offerOnLink()
	for w := range d.namespaces.watchers.at(nil) { // only links have no scope
		switch {
		case !ok:
		case offered:
			_ = w.request.Add(ns, moqt.Parameters{}) // fails only if the request is over
		default:
			_ = w.request.Remove(ns)
		}
	}
}

// tellAllLocked tells a process of all tracks that publishers of this one offer; d.mu is held.
func (d *directory) tellAllLocked(w *namespaceWatch) {
	for _, h := range d.hubs {
		h.mu.Lock()
		offered := h.publishers.isOffered()
		h.mu.Unlock()
		if ns, ok := h.offerOnLink(); ok && offered {
			_ = w.request.Add(ns, moqt.Parameters{})
		}
	}
}

// linkTracks are the tracks that publishers of another process offer. Their hubs exist in this process, too, so that
// SUBSCRIBE_TRACKS finds them. The lock of linkNamespaces is held when methods are called.
type linkTracks struct {
	link *peer
	of   map[string]*hub
}

// changed notes that a publisher of the other process begins or ceases to offer a track.
func (t *linkTracks) changed(ns moqt.Namespace, at place, name string, offered bool) {
	directory := &t.link.relay.directory
	key := ns.Key()
	switch h := t.of[key]; {
	case offered && h == nil:
		h, refused := directory.acquire(at, name, nil)
		if refused != nil {
			t.link.relay.log.Warn("subscribers will not find a track of another process of the relay", "err", refused)
			return
		}
		t.of[key] = h
		h.offeredBy(t.link, true)
		directory.offeredOnLink(h.place, true)
		directory.offer(h)
	case !offered && h != nil:
		delete(t.of, key)
		t.drop(h)
	}
}

func (t *linkTracks) drop(h *hub) {
	h.offeredBy(t.link, false)
	t.link.relay.directory.offeredOnLink(h.place, false)
	t.link.relay.directory.release(h)
}

// end drops all tracks, when the link has ended.
func (t *linkTracks) end() {
	for _, h := range t.of {
		t.drop(h)
	}
	t.of = nil
}

// offeredBy notes whether publishers of the process at the other end of a link offer the track.
func (h *hub) offeredBy(link *peer, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.publishers
	s.offers = slices.DeleteFunc(s.offers, func(p *peer) bool { return p == link })
	if on {
		s.offers = append(s.offers, link)
	}
	if len(s.offers) == 0 {
		clear(h.subscribers.waiting)
		h.demand.update()
	}
}

// awaitOfferLocked subscribes at the links that offer the track, and remembers a request to offer it to: what it is
// told of the track comes from the publisher. hub.mu is held.
func (h *hub) awaitOfferLocked(w *tracksWatch) {
	h.subscribers.waiting[w] = struct{}{}
	s := &h.publishers
	for _, p := range s.offers {
		if s.of[p] == nil {
			s.start(newUpstream(h, p))
		}
	}
}

// offerLate offers a track, which has a publisher or a link now, to the peers that wait for it.
func (d *directory) offerLate(h *hub) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.mu.Lock()
	waiting := slices.Collect(maps.Keys(h.subscribers.waiting))
	clear(h.subscribers.waiting)
	h.mu.Unlock()
	for _, w := range waiting {
		if _, present := d.tracks.watchers.at(w.place())[w]; present {
			w.foundLocked(h)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.demand.update()
}
