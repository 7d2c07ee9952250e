package names

import (
	"context"
	"slices"
	"sync"

	"sluice/moqt"
)

// Prefix is a request for everything below a namespace prefix.
type Prefix[P Peer[P]] struct {
	Peer      P
	Namespace moqt.Namespace // guarded by the lock of the tree
	Path      moqt.HopPath   // what the request has come through
}

// Place is where the prefix is in a tree.
func (p *Prefix[P]) Place() Place { return p.Peer.Naming().Place(p.Namespace) }

// Watch tells a peer in which namespaces below a prefix others publish: an accepted SUBSCRIBE_NAMESPACE, or a follower.
type Watch[P Peer[P]] struct {
	Prefix[P]
	Space   *Space[P]
	Told    Notify
	follows bool // tracks that are offered, too
}

// Notify is called when others publish in a namespace, or do so no longer, as session.NotifyNamespace is. It may be
// told again what it knows.
type Notify func(ns moqt.Namespace, published bool, way moqt.Parameters)

// Enter begins with a prefix, or goes on with another one, if that is admitted: admit is told how many namespaces it
// matches. tell tells of them, and is nil if it was not.
func (w *Watch[P]) Enter(prefix moqt.Namespace, admit func(n int) bool) (tell func(context.Context)) {
	s := w.Space
	s.mu.Lock()
	defer s.mu.Unlock()
	if !admit(s.announcements.Count(w.Peer.Naming().Place(prefix))) {
		return nil
	}
	s.watches.Remove(w.Place(), w)
	w.Namespace = prefix
	places := w.enterLocked()
	return func(ctx context.Context) { Tell(ctx, &s.mu, places, w.tellLocked) }
}

// enterLocked enters the watch, and returns the places to tell of.
func (w *Watch[P]) enterLocked() (places []Place) {
	w.Space.watches.Add(w.Place(), w)
	for a := range w.Space.announcements.Under(w.Place()) {
		places = append(places, a.Place)
	}
	return places
}

// Leave ends the watch.
func (w *Watch[P]) Leave() {
	w.Space.mu.Lock()
	defer w.Space.mu.Unlock()
	w.Space.watches.Remove(w.Place(), w)
}

// tellLocked tells the peer whether others publish at a place.
func (w *Watch[P]) tellLocked(at Place) {
	way, found := w.Space.wayLocked(at, w)
	w.toldLocked(w.Peer.Naming().Namespace(at), found, way)
}

// tellOfferLocked tells a follower whether a track is offered, or whether others publish at its place.
func (w *Watch[P]) tellOfferLocked(o *Offer[P]) {
	if !w.Peer.Naming().All {
		w.tellLocked(o.Place)
		return
	}
	w.toldLocked(offer(o.Place, o.Track), o.isFor(w.Peer), moqt.Parameters{})
}

func (w *Watch[P]) toldLocked(ns moqt.Namespace, found bool, way moqt.Parameters) {
	if ns.Validate() == nil {
		w.Told(ns, found, way)
	}
}

// tellBatch is how many values a request is told about while all others wait for the lock. A PUBLISH for a track takes
// some ten microseconds.
const tellBatch = 16

// Tell tells a request about values that were present when it began, until the context is done. It releases the lock
// between batches, because all other requests wait for it. f is called with the lock held, also for values that have
// gone meanwhile.
func Tell[V any](ctx context.Context, mu sync.Locker, values []V, f func(V)) {
	for batch := range slices.Chunk(values, tellBatch) {
		if ctx.Err() != nil {
			return
		}
		mu.Lock()
		for _, v := range batch {
			f(v)
		}
		mu.Unlock()
	}
}
