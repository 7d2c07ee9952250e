package neighbor

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"sluice/moqt"
	"sluice/relay/internal/hub"
)

// maxAsked bounds the prefixes that an upstream relay is asked about in a session. If subscribers watch more, it is
// asked about all that it may have.
const maxAsked = 64

// Watches asks a neighbour for the namespaces and tracks that subscribers of this process watch, once for all of them.
// It lives as long as a session.
type Watches struct {
	Config
	wake chan struct{} // looks at the prefixes again

	mu         sync.Mutex // guards what follows
	namespaces askedPrefixes
	tracks     askedPrefixes
}

// askedPrefixes are the prefixes that an upstream relay was asked about by requests of one kind. They do not overlap,
// as the draft wants (§10.18, §10.19).
type askedPrefixes map[string]*askedPrefix

type askedPrefix struct {
	hub.Prefix
	cancel context.CancelFunc
}

// NewWatches returns watches that have asked for nothing.
func NewWatches(cfg Config) *Watches {
	return &Watches{
		Config: cfg, wake: make(chan struct{}, 1), namespaces: make(askedPrefixes), tracks: make(askedPrefixes),
	}
}

// Wake makes Run look at what subscribers watch.
func (w *Watches) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run adapts the requests to what subscribers watch, until the session shares no names any more.
func (w *Watches) Run() {
	for {
		w.update()
		select {
		case <-w.Sharing.Done():
			return
		case <-w.wake:
		}
	}
}

func (w *Watches) update() {
	namespaces, tracks := w.Watched()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ask(w.namespaces, namespaces, w.askNamespaces)
	w.ask(w.tracks, tracks, w.askTracks)
}

// pathOf returns what a request for a prefix has come through: of the watched ones that it covers, the one that is
// nearest.
func pathOf(ns moqt.Namespace, watched []hub.Prefix) (path moqt.HopPath) {
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
func (w *Watches) ask(asked askedPrefixes, watched []hub.Prefix, request func(context.Context, hub.Prefix) error) {
	mine := w.Ask
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
			ctx, cancel := context.WithCancel(w.Sharing)
			a := hub.Prefix{Namespace: ns, Path: pathOf(ns, watched)}
			asked[ns.Key()] = &askedPrefix{a, cancel}
			w.Tasks.Go(func() {
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
func (w *Watches) askNamespaces(ctx context.Context, a hub.Prefix) error {
	teller := new(byte)
	m := moqt.SubscribeNamespace{Prefix: a.Namespace, Parameters: moqt.Parameters{HopPath: a.Path}}
	sub, err := w.Session.SubscribeNamespace(ctx, m, func(ns moqt.Namespace, on bool, way moqt.Parameters) {
		// When the request ends, all disappear: that means something only if the neighbour has ended it.
		if ctx.Err() == nil {
			w.Told(teller, ns, on, way)
		}
	})
	if err != nil {
		return err
	}
	defer w.Ended(teller)
	return awaitEnd(ctx, sub.Request, sub.Wait)
}

// askTracks has the upstream relay offer the tracks below a prefix, until the context is done. It returns why the
// upstream relay ends that earlier. The tracks pause until a subscriber wants their objects. Those for which the
// upstream relay has no stream are not offered here.
func (w *Watches) askTracks(ctx context.Context, a hub.Prefix) error {
	pause := false
	m := moqt.SubscribeTracks{Prefix: a.Namespace, Parameters: moqt.Parameters{Forward: &pause, HopPath: a.Path}}
	sub, err := w.Session.SubscribeTracks(ctx, m, func(moqt.FullTrackName) {})
	if err != nil {
		return err
	}
	defer w.Dropped(a.Namespace)
	return awaitEnd(ctx, sub.Request, sub.Wait)
}

// HasAskedFor reports whether the upstream relay was asked to offer the tracks of a namespace.
func (w *Watches) HasAskedFor(ns moqt.Namespace) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.tracks {
		if ns.HasPrefix(a.Namespace) {
			return true
		}
	}
	return false
}
