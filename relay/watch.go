package relay

import (
	"sluice/moqt"
	"sluice/moqt/session"
)

// prefixWatch is a request for everything below a namespace prefix: a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS.
type prefixWatch struct {
	peer   *peer
	prefix moqt.Namespace // guarded by directory.mu
}

func (w *prefixWatch) base() *prefixWatch { return w }

func (w *prefixWatch) place() place { return w.peer.place(w.prefix) }

// watcher is a type of request that embeds a prefixWatch. Its methods tell it about changes.
type watcher[V any] interface {
	comparable
	base() *prefixWatch
	foundLocked(V) // directory.mu is held
}

// watchedTree holds values by place, and the requests for all values below a prefix. Its methods expect directory.mu to
// be held.
type watchedTree[V comparable, W watcher[V]] struct {
	values   tree[V]
	watchers tree[W]
}

// start accepts a request, and tells it about the present values. A prefix with more values than limit is refused.
func (t *watchedTree[V, W]) start(w W, limit int, accept func() error) *moqt.RequestError {
	n := 0
	for range t.values.under(w.base().place()) {
		if n++; n > limit {
			return &moqt.RequestError{
				Code: moqt.RequestNamespaceTooLarge, Reason: "the prefix matches too much; use a longer one",
			}
		}
	}
	if accept() == nil { // else the request is over
		t.enter(w)
	}
	return nil
}

func (t *watchedTree[V, W]) enter(w W) {
	at := w.base().place()
	t.watchers.add(at, w)
	for v := range t.values.under(at) {
		w.foundLocked(v)
	}
}

// move changes the prefix of a request.
func (t *watchedTree[V, W]) move(w W, prefix moqt.Namespace) {
	t.stop(w)
	w.base().prefix = prefix
	t.enter(w)
}

func (t *watchedTree[V, W]) stop(w W) { t.watchers.remove(w.base().place(), w) }

// serveWatch serves a request for everything below a prefix, in one of the directory's trees, until it ends.
func serveWatch[V comparable, W watcher[V]](
	t *watchedTree[V, W], w W, r *session.Request, a Action, accept func() error,
) {
	p := w.base().peer
	mu := &p.relay.directory.mu
	permit, refused := p.authorize(r, a, moqt.FullTrackName{Namespace: w.base().prefix})
	if refused == nil {
		mu.Lock()
		refused = t.start(w, p.relay.cfg.MaxMatches, accept)
		mu.Unlock()
	}
	if refused != nil {
		p.reject(r, refused)
		return
	}
	permit.keep(r, func(prefix moqt.Namespace) {
		mu.Lock()
		defer mu.Unlock()
		t.move(w, prefix)
	})
	mu.Lock()
	defer mu.Unlock()
	t.stop(w)
}
