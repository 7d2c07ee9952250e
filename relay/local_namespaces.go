package relay

import "sluice/moqt"

// localNamespaces are the namespaces in which peers publish that are connected to this process, or to another one of
// this relay: those that they have announced, and those of tracks that they offer. directory.mu is held when methods
// are called.
type localNamespaces struct {
	of        map[string]*localNamespace
	followers map[*namespaceFollower]struct{}
}

type localNamespace struct {
	at      place
	reasons int // announcements, and tracks
}

// namespaceFollower is a caller of directory.follow.
type namespaceFollower struct {
	changed func(scope string, ns moqt.Namespace, published bool)
}

func newLocalNamespaces() localNamespaces {
	return localNamespaces{
		of: make(map[string]*localNamespace), followers: make(map[*namespaceFollower]struct{}),
	}
}

// add notes a reason for a namespace.
func (l *localNamespaces) add(at place) {
	key := at.Key()
	n := l.of[key]
	if n == nil {
		n = &localNamespace{at: at}
		l.of[key] = n
		l.tell(at, true)
	}
	n.reasons++
}

// remove is the reverse of add.
func (l *localNamespaces) remove(at place) {
	key := at.Key()
	n := l.of[key]
	if n.reasons--; n.reasons == 0 {
		delete(l.of, key)
		l.tell(at, false)
	}
}

func (l *localNamespaces) tell(at place, published bool) {
	for f := range l.followers {
		f.changed(at[0], at[1:], published)
	}
}

// FollowNamespaces calls f for each namespace in which peers publish that are connected to this process: for the
// present ones at once, and from then on for each that appears or disappears. Such a namespace was announced
// (PUBLISH_NAMESPACE), or is that of a track that is offered (PUBLISH). What comes from upstream relays, and from other
// processes of this relay, does not count. f is called with locks held: it must return at once and must not call the
// relay. stop ends the calls.
func (r *Relay) FollowNamespaces(f func(scope string, ns moqt.Namespace, published bool)) (stop func()) {
	return r.directory.follow(&r.directory.local, f)
}

// FollowLinkedNamespaces is FollowNamespaces for the peers of other processes of this relay.
func (r *Relay) FollowLinkedNamespaces(f func(scope string, ns moqt.Namespace, published bool)) (stop func()) {
	return r.directory.follow(&r.directory.ofLinks, f)
}

func (d *directory) follow(l *localNamespaces, f func(string, moqt.Namespace, bool)) (stop func()) {
	follower := &namespaceFollower{f}
	d.mu.Lock()
	defer d.mu.Unlock()
	l.followers[follower] = struct{}{}
	for _, n := range l.of {
		f(n.at[0], n.at[1:], true)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(l.followers, follower)
	}
}
