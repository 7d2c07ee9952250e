package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// prefixWatch is a request for everything below a namespace prefix: a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS. A
// follower is one without a request.
type prefixWatch struct {
	peer   *peer
	prefix moqt.Namespace // guarded by directory.mu
	path   moqt.HopPath   // what the request has come through
	payers payers         // of the request, and of what it leads to
	permit *permission    // of the request
}

func (w *prefixWatch) base() *prefixWatch { return w }

func (w *prefixWatch) place() place { return w.peer.place(w.prefix) }

// placed is a value of a tree, and knows where it is.
type placed interface {
	comparable
	at() place
}

// watcher is a type that embeds a prefixWatch.
type watcher[V any] interface {
	comparable
	base() *prefixWatch
	// changedLocked tells it about a value that has come, changed or gone; directory.mu is held.
	changedLocked(V)
}

// trackWatcher is a watcher of tracks.
type trackWatcher interface {
	base() *prefixWatch
	changedLocked(*hub)
}

// watchedTree holds values by place, and the requests for all values below a prefix. Its methods, except for tell,
// expect directory.mu to be held.
type watchedTree[V placed, W watcher[V]] struct {
	values   tree[V]
	watchers tree[W]
}

// start accepts a request for a prefix, which is new or an update, and returns the present values to tell it about. It
// refuses a prefix with more values than the request, or at the moment the session, may match.
func (t *watchedTree[V, W]) start(w W, prefix moqt.Namespace, accept func() error) ([]V, *moqt.RequestError) {
	b := w.base()
	at := b.peer.place(prefix)
	n := t.values.count(at)
	switch {
	case n > b.peer.relay.cfg.MaxMatches && !b.peer.hidden:
		return nil, errTooManyMatches
	case !b.peer.hidden && !b.peer.mayMatch(n):
		return nil, errTooOften()
	case accept() != nil:
		return nil, nil // the request is over
	}
	t.leave(w)
	b.prefix = prefix
	return t.enter(w), nil
}

// enter begins to tell a watcher about changes, and returns the present values to tell it about.
func (t *watchedTree[V, W]) enter(w W) []V {
	at := w.base().place()
	t.watchers.add(at, w)
	return slices.Collect(t.values.under(at))
}

func (t *watchedTree[V, W]) leave(w W) { t.watchers.remove(w.base().place(), w) }

// tellBatch is how many values a request is told about while all others wait for the lock. A PUBLISH for a track takes
// some ten microseconds.
const tellBatch = 16

// tell tells a request about values that were present when it started, until the context is done. It releases the lock
// between batches, because all other requests to the relay wait for it.
func (t *watchedTree[V, W]) tell(ctx context.Context, mu sync.Locker, w W, values []V) {
	for batch := range slices.Chunk(values, tellBatch) {
		if ctx.Err() != nil {
			return
		}
		mu.Lock()
		for _, v := range batch {
			if _, present := t.values.at(v.at())[v]; present {
				w.changedLocked(v)
			}
		}
		mu.Unlock()
	}
}

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
func serveWatch[V placed, W watcher[V]](
	t *watchedTree[V, W], w W, r *session.Request, a Action, accept func() error,
) {
	b := w.base()
	mu := &b.peer.relay.directory.mu
	start := func(prefix moqt.Namespace, accept func() error) *moqt.RequestError {
		mu.Lock()
		values, refused := t.start(w, prefix, accept)
		mu.Unlock()
		b.peer.relay.watched()
		t.tell(r.Context(), mu, w, values)
		return refused
	}
	defer b.peer.relay.watched()
	permit, refused := b.peer.authorize(r, a, moqt.FullTrackName{Namespace: b.prefix})
	if refused == nil {
		b.payers, b.permit = permit.payers, permit
		permit.hold(permit.cancel)
		refused = start(b.prefix, accept)
	}
	if refused != nil {
		b.peer.reject(r, refused)
		return
	}
	permit.keep(start)
	mu.Lock()
	defer mu.Unlock()
	t.leave(w)
}
