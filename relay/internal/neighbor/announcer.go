package neighbor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/moqt/session"
)

const (
	// maxAnnounced bounds the namespaces that are announced in a session with an upstream relay.
	maxAnnounced = 1 << 12
	// askRetry is how long to wait before a request about namespaces is repeated that an upstream relay has refused or
	// ended.
	askRetry = 10 * time.Second
	// overlapRetry is how long to wait if the reason was a prefix that this end has just given up: that message may
	// have been overtaken.
	overlapRetry = 50 * time.Millisecond
	// warnInterval is the shortest time between warnings about what comes again and again.
	warnInterval = time.Minute
)

// Announcer tells an upstream relay in which namespaces peers of this process publish, as far as the configuration
// wants: one PUBLISH_NAMESPACE each.
type Announcer struct {
	Config
	warn logs.Line

	mu sync.Mutex
	of map[string]*announced // by namespace
}

// announced is a namespace that an upstream relay is told of.
type announced struct {
	way    moqt.Parameters // for the next request
	cancel context.CancelFunc
}

// NewAnnouncer returns an announcer that has told nothing.
func NewAnnouncer(cfg Config) *Announcer {
	return &Announcer{Config: cfg, of: make(map[string]*announced)}
}

// Changed is called for each namespace that appears, disappears, or comes another way.
func (a *Announcer) Changed(ns moqt.Namespace, published bool, way moqt.Parameters) {
	if len(ns) == 0 || !slices.ContainsFunc(a.Announce, ns.HasPrefix) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := ns.Key()
	switch n := a.of[key]; {
	case published && n != nil:
		n.way = way
	case published && len(a.of) >= maxAnnounced:
		a.warn.Log(a.Log, warnInterval, slog.LevelWarn, "an upstream relay is not told of all namespaces",
			"upstream", a.URL, "limit", maxAnnounced)
	case published:
		ctx, cancel := context.WithCancel(a.Sharing)
		n = &announced{way, cancel}
		a.of[key] = n
		a.Tasks.Go(func() {
			keepAsking(ctx, func() error { return a.announce(ctx, ns, n) })
		})
	case n != nil:
		n.cancel()
		delete(a.of, key)
	}
}

// announce announces a namespace until the context is done. It returns why the upstream relay ends that earlier.
func (a *Announcer) announce(ctx context.Context, ns moqt.Namespace, n *announced) error {
	a.mu.Lock()
	m := moqt.PublishNamespace{Namespace: ns, Parameters: n.way}
	a.mu.Unlock()
	p, err := a.Session.PublishNamespace(ctx, m)
	if err != nil {
		return err
	}
	err = awaitEnd(ctx, p.Request, p.Wait)
	if err != nil && ctx.Err() == nil {
		a.warn.Log(a.Log, warnInterval, slog.LevelWarn, "an upstream relay refuses a namespace",
			"upstream", a.URL, "namespace", ns, "err", err)
	}
	return err
}

// awaitEnd waits until a request is over, or the context is done, and ends it.
func awaitEnd(ctx context.Context, r *session.Request, wait func(context.Context) error) error {
	defer r.Cancel(moqt.ResetCancelled)
	if err := wait(ctx); err != nil {
		return err
	}
	select {
	case <-r.Context().Done():
		return context.Cause(r.Context())
	case <-ctx.Done():
		return nil
	}
}

// keepAsking calls ask again and again until the context is done, or the peer does not know such requests. ask returns
// when its request is over.
func keepAsking(ctx context.Context, ask func() error) {
	for ctx.Err() == nil {
		refused, ok := errors.AsType[*moqt.RequestError](ask())
		wait := askRetry
		switch {
		case ok && refused.Code == moqt.RequestNotSupported:
			return
		case ok && refused.Code == moqt.RequestPrefixOverlap:
			wait = overlapRetry
		}
		retry := time.NewTimer(wait)
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
		}
	}
}
