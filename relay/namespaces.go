package relay

import (
	"context"

	"sluice/moqt"
)

// namespaceWatch tells a peer in which namespaces below a prefix others publish: an accepted SUBSCRIBE_NAMESPACE, or
// a part of a follower.
type namespaceWatch struct {
	prefixWatch
	told   namespaceListener
	tracks bool // that are offered count, too, or are told
}

// namespaceListener is told of namespaces, also of those that it knows, or does not know any more.
type namespaceListener interface {
	Add(moqt.Namespace, moqt.Parameters) error // fails only if nobody listens any more
	Remove(moqt.Namespace) error
}

// changedLocked implements watcher. Another relay is told of the best way to the namespace.
func (w *namespaceWatch) changedLocked(a *announcement) { w.tellLocked(a.place) }

// tellLocked tells the peer whether others publish at a place; directory.mu is held.
func (w *namespaceWatch) tellLocked(at place) {
	params, found := w.peer.relay.directory.wayLocked(at, w.peer, w.tracks)
	ns, ok := w.peer.namespaceOf(at)
	switch {
	case !ok:
	case found:
		_ = w.told.Add(ns, params)
	default:
		_ = w.told.Remove(ns)
	}
}

// offerWatch is the other part of a follower: it tells which tracks are offered. Another process is told their names,
// all others only that somebody publishes in the namespace.
type offerWatch struct{ *namespaceWatch }

// changedLocked implements watcher.
func (o offerWatch) changedLocked(h *hub) {
	if !o.peer.scoped {
		o.tellLocked(h.place)
		return
	}
	switch ns := trackOnLink(h); {
	case ns.Validate() != nil:
	case h.offered <= o.peer.reach:
		_ = o.told.Add(ns, moqt.Parameters{})
	default:
		_ = o.told.Remove(ns)
	}
}

// follow tells where others publish that a peer may be told of: the namespaces that they have announced, and those of
// tracks that they offer. stop ends that.
func (d *directory) follow(p *peer, told namespaceListener) (stop func()) {
	w := &namespaceWatch{prefixWatch: prefixWatch{peer: p}, told: told, tracks: !p.scoped}
	o := offerWatch{w}
	d.mu.Lock()
	namespaces, tracks := d.namespaces.enter(w), d.tracks.enter(o)
	d.mu.Unlock()
	d.namespaces.tell(context.Background(), &d.mu, w, namespaces)
	d.tracks.tell(context.Background(), &d.mu, o, tracks)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.namespaces.leave(w)
		d.tracks.leave(o)
	}
}

// follower is a namespaceListener outside of the relay.
type follower func(ns moqt.Namespace, published bool)

// Add implements namespaceListener.
func (f follower) Add(ns moqt.Namespace, _ moqt.Parameters) error {
	f(ns, true)
	return nil
}

// Remove implements namespaceListener.
func (f follower) Remove(ns moqt.Namespace) error {
	f(ns, false)
	return nil
}

// FollowNamespaces calls f for each namespace of a scope in which peers publish that are connected to this process, or
// to another one of this relay: for the present ones at once, and from then on for each that appears or disappears.
// Such a namespace was announced (PUBLISH_NAMESPACE), or is that of a track that is offered (PUBLISH). What comes from
// upstream relays does not count. f may be told again what it knows. It is called with locks held: it must return at
// once and must not call the relay. stop ends the calls.
func (r *Relay) FollowNamespaces(scope string, f func(ns moqt.Namespace, published bool)) (stop func()) {
	p := &peer{terms: terms{from: elsewhere, reach: beside}, relay: r, scope: scope}
	return r.directory.follow(p, follower(f))
}
