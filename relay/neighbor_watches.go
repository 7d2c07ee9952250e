package relay

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"sluice/moqt"
	"sluice/relay/internal/names"
)

const (
	// maxAsked bounds the prefixes that an upstream relay is asked about in a session. If subscribers watch more, it is
	// asked about all that it may have.
	maxAsked = 64
	// maxUpstreamNamespaces bounds the namespaces of an upstream relay that subscribers are told of.
	maxUpstreamNamespaces = 1 << 14
)

// watches asks a neighbour for namespaces and tracks: another process for all, and an upstream relay for those below
// the prefixes that subscribers of this process watch, once for all of them. It lives as long as a session.
type watches struct {
	neighbor *Neighbor
	peer     *peer
	wake     chan struct{} // looks at the prefixes again

	mu         sync.Mutex // guards what follows
	namespaces askedPrefixes
	tracks     askedPrefixes
}

// askedPrefixes are the prefixes that an upstream relay was asked about by requests of one kind. They do not overlap,
// as the draft wants (§10.18, §10.19).
type askedPrefixes map[string]*askedPrefix

type askedPrefix struct {
	names.Prefix[*peer]
	cancel context.CancelFunc
}

func newWatches(n *Neighbor) *watches {
	return &watches{
		neighbor: n, peer: n.peer, wake: make(chan struct{}, 1),
		namespaces: make(askedPrefixes), tracks: make(askedPrefixes),
	}
}

// run adapts the requests to what subscribers watch, until the session shares no names any more.
func (w *watches) run() {
	ctx := w.neighbor.sharing
	if w.peer.scoped {
		keepAsking(ctx, func() error { return w.askNamespaces(ctx, prefix{}) })
		return
	}
	for {
		w.update()
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
	}
}

func (w *watches) update() {
	d := &w.peer.relay.directory
	namespaces := watchedFor(d.names.Watched(w.peer.scope), w.peer)
	tracks := watchedFor(d.watched(w.peer.scope), w.peer)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ask(w.namespaces, namespaces, w.askNamespaces)
	w.ask(w.tracks, tracks, w.askTracks)
}

// watchedFor returns the prefixes that subscribers of this process watch, and that the relay at the other end of a
// session may be asked about.
func watchedFor(watched []prefix, p *peer) []prefix {
	return slices.DeleteFunc(watched, func(w prefix) bool { return w.Peer.from > here || !p.Takes(w.Path) })
}

// pathOf returns what a request for a prefix has come through: of the watched ones that it covers, the one that is
// nearest.
func pathOf(ns moqt.Namespace, watched []prefix) (path moqt.HopPath) {
	found := false
	for _, w := range watched {
		if w.Namespace.Overlaps(ns) && (!found || len(w.Path) < len(path)) {
			path, found = w.Path, true
		}
	}
	return path
}

// ask makes the requests of one kind cover the prefixes that subscribers watch, as far as the upstream relay may have
// them.
func (w *watches) ask(asked askedPrefixes, watched []prefix, request func(context.Context, prefix) error) {
	mine := w.peer.upstream.cfg.Namespaces
	var wanted, present []moqt.Namespace
	for _, w := range watched {
		for _, m := range mine {
			if w.Namespace.HasPrefix(m) {
				wanted = append(wanted, w.Namespace)
			} else if m.HasPrefix(w.Namespace) {
				wanted = append(wanted, m)
			}
		}
	}
	for _, a := range asked {
		present = append(present, a.Namespace)
	}
	cover := coverOf(wanted, present)
	if len(cover) > maxAsked {
		cover = coverOf(mine, nil)
	}
	for key, a := range asked {
		// A request that has come a longer way than it says could keep itself alive, in a circle of relays.
		moved := len(pathOf(a.Namespace, watched)) > len(a.Path)
		if moved || !slices.ContainsFunc(cover, func(p moqt.Namespace) bool { return p.Key() == key }) {
			a.cancel()
			delete(asked, key)
		}
	}
	for _, ns := range cover {
		if asked[ns.Key()] == nil {
			ctx, cancel := context.WithCancel(w.neighbor.sharing)
			a := prefix{Namespace: ns, Path: pathOf(ns, watched)}
			asked[ns.Key()] = &askedPrefix{a, cancel}
			w.peer.relay.tasks.Go(func() {
				keepAsking(ctx, func() error { return request(ctx, a) })
			})
		}
	}
}

// coverOf returns prefixes that do not overlap and that cover all that are wanted: of those that are asked for already,
// the ones that are of use, and as few others as possible.
func coverOf(wanted, asked []moqt.Namespace) (cover []moqt.Namespace) {
	all := slices.Clone(wanted)
	for _, a := range asked {
		if slices.ContainsFunc(wanted, func(w moqt.Namespace) bool { return w.HasPrefix(a) }) {
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b moqt.Namespace) int { return cmp.Compare(len(a), len(b)) })
	for _, p := range all {
		if !slices.ContainsFunc(cover, p.HasPrefix) {
			cover = append(cover, p)
		}
	}
	return cover
}

// askNamespaces shows subscribers the namespaces below a prefix, until the context is done. It returns why the
// neighbour ends that earlier.
func (w *watches) askNamespaces(ctx context.Context, a prefix) error {
	teller := new(byte)
	m := moqt.SubscribeNamespace{Prefix: a.Namespace, Parameters: moqt.Parameters{HopPath: a.Path}}
	sub, err := w.peer.session.SubscribeNamespace(ctx, m, func(ns moqt.Namespace, on bool, way moqt.Parameters) {
		// When the request ends, all disappear: that means something only if the neighbour has ended it.
		if ctx.Err() == nil && (!on || w.neighbor.mayTell(ns)) {
			w.neighbor.names.Changed(teller, ns, on, way)
		}
	})
	if err != nil {
		return err
	}
	defer w.neighbor.names.End(teller)
	return awaitEnd(ctx, sub.Request, sub.Wait)
}

// askTracks has the upstream relay offer the tracks below a prefix, until the context is done. It returns why the
// upstream relay ends that earlier. The tracks pause until a subscriber wants their objects. Those for which the
// upstream relay has no stream are not offered here.
func (w *watches) askTracks(ctx context.Context, a prefix) error {
	pause := false
	m := moqt.SubscribeTracks{Prefix: a.Namespace, Parameters: moqt.Parameters{Forward: &pause, HopPath: a.Path}}
	sub, err := w.peer.session.SubscribeTracks(ctx, m, func(moqt.FullTrackName) {})
	if err != nil {
		return err
	}
	defer w.dropTracks(a.Namespace)
	return awaitEnd(ctx, sub.Request, sub.Wait)
}

// dropTracks ends the subscriptions that the upstream relay has offered, when nobody watches them any more, unless they
// have subscribers.
func (w *watches) dropTracks(prefix moqt.Namespace) {
	w.peer.relay.directory.eachHub(func(h *hub) {
		u := h.publishers.of[w.peer]
		if u != nil && u.offered && h.name.Namespace.HasPrefix(prefix) && h.subscribers.areNone() {
			u.cancelLocked(moqt.ResetCancelled)
		}
	})
}

// hasAskedFor reports whether the upstream relay was asked to offer the tracks of a namespace.
func (w *watches) hasAskedFor(ns moqt.Namespace) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return some(maps.Values(w.tracks), func(a *askedPrefix) bool { return ns.HasPrefix(a.Namespace) })
}
