package relay

import (
	"context"
	"time"

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

// start accepts a request for a prefix, which is new or an update, and tells it about the present values. It refuses a
// prefix with more values than the request, or at the moment the session, may match.
func (t *watchedTree[V, W]) start(w W, prefix moqt.Namespace, accept func() error) *moqt.RequestError {
	b := w.base()
	at := b.peer.place(prefix)
	n := t.values.count(at)
	switch {
	case n > b.peer.relay.cfg.MaxMatches:
		return errTooManyMatches
	case !b.peer.mayMatch(n):
		return errTooOften()
	case accept() != nil:
		return nil // the request is over
	}
	t.stop(w)
	b.prefix = prefix
	t.watchers.add(at, w)
	for v := range t.values.under(at) {
		w.foundLocked(v)
	}
	return nil
}

func (t *watchedTree[V, W]) stop(w W) { t.watchers.remove(w.base().place(), w) }

// retryMatching is the time after which a prefix may match something again: 1,000 values by default.
const retryMatching = time.Second

var errTooManyMatches = &moqt.RequestError{
	Code: moqt.RequestNamespaceTooLarge, Reason: "the prefix matches too much; use a longer one",
}

// errTooOften returns the refusal of a prefix whose session has had its share of matches for now.
func errTooOften() *moqt.RequestError {
	e := &moqt.RequestError{
		Code: moqt.RequestExcessiveLoad, Reason: "the prefixes of the session match too much; use longer ones, or wait",
	}
	e.SetRetry(retryMatching)
	return e
}

// mayMatch reports whether requests of the peer may match n more values now. All other requests to the relay wait while
// it looks at these values.
func (p *peer) mayMatch(n int) bool { return p.matches.AllowN(time.Now(), min(n, p.matches.Burst())) }

// awaitMatches waits until the peer may match n more values. It is for requests that must not be refused because of
// what others publish below their namespace.
func (p *peer) awaitMatches(ctx context.Context, n int) error {
	return p.matches.WaitN(ctx, min(n, p.matches.Burst()))
}

// serveWatch serves a request for everything below a prefix, in one of the directory's trees, until it ends.
func serveWatch[V comparable, W watcher[V]](
	t *watchedTree[V, W], w W, r *session.Request, a Action, accept func() error,
) {
	b := w.base()
	mu := &b.peer.relay.directory.mu
	start := func(prefix moqt.Namespace, accept func() error) *moqt.RequestError {
		mu.Lock()
		defer mu.Unlock()
		return t.start(w, prefix, accept)
	}
	permit, refused := b.peer.authorize(r, a, moqt.FullTrackName{Namespace: b.prefix})
	if refused == nil {
		refused = start(b.prefix, accept)
	}
	if refused != nil {
		b.peer.reject(r, refused)
		return
	}
	permit.keep(r, start)
	mu.Lock()
	defer mu.Unlock()
	t.stop(w)
}
