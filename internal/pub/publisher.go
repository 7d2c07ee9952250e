package pub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/client"
	"sluice/moqt"
	"sluice/moqt/session"
)

// linger is how long a session is kept when all has been sent, so that what gets lost can be sent again. QUIC drops
// what is unacknowledged when a connection is closed, and does not tell whether there is something.
const linger = time.Second

// statusTimeout is how long to wait for a relay to say what it has of the broadcast.
const statusTimeout = 3 * time.Second

// Run publishes the input until its end, or until the context is done. It counts in stats.
func Run(ctx context.Context, cfg Config, stats *Stats) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	s, err := openSource(&cfg)
	if err != nil {
		return err
	}
	p := &publisher{
		cfg: &cfg, source: s, stats: stats, log: cfg.Client.Logger,
		ready: make(chan struct{}), demand: make(chan struct{}), fed: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	defer p.cancel()
	err = client.Run(ctx, cfg.Client, p.endpoint)
	p.cancel()
	p.discard()
	if ctx.Err() != nil {
		err = p.inputErr() // else the user ended it
	}
	return err
}

// publisher is a call of Run.
type publisher struct {
	cfg    *Config
	source *source
	stats  *Stats
	log    *slog.Logger
	ctx    context.Context // done when the input is to end
	cancel context.CancelFunc

	mu        sync.Mutex    // held while the broadcast is made
	broadcast *broadcast    // valid once ready
	ready     chan struct{} // closed when there is a broadcast
	wantOnce  sync.Once
	demand    chan struct{} // closed when somebody subscribed to media
	fed       chan struct{} // closed when the input has ended
	feedErr   error
}

func (p *publisher) endpoint(l *client.Link) client.Endpoint {
	return &handler{p: p, link: l, log: p.log, moved: make(chan struct{})}
}

func (p *publisher) wanted() { p.wantOnce.Do(func() { close(p.demand) }) }

// begin makes the broadcast and starts to feed it, on the first session that lasts long enough.
func (p *publisher) begin(l *client.Link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broadcast != nil {
		return nil
	}
	first, err := p.firstGroup(l)
	if err != nil {
		return err
	}
	if p.broadcast, err = newBroadcast(p.cfg, p.source.init, first); err != nil {
		return err
	}
	close(p.ready)
	go p.feed(&feed{
		cfg: p.cfg, init: p.source.init, broadcast: p.broadcast, groups: newGrouper(p.source.init, first),
		stats: p.stats, log: p.log,
	})
	return nil
}

func (p *publisher) feed(f *feed) {
	defer close(p.fed)
	defer p.broadcast.end()
	if p.cfg.Wait && !p.await() {
		_ = p.source.Close()
		return
	}
	done := make(chan error, 1)
	go func() { done <- f.run(p.ctx, p.source) }() // it may be blocked for good, in a read of standard input
	select {
	case p.feedErr = <-done:
	case <-p.ctx.Done():
	}
}

// inputErr is why the input ended, nil if it has not, or in good order.
func (p *publisher) inputErr() error {
	select {
	case <-p.fed:
		return p.feedErr
	default:
		return nil
	}
}

// settle is how long after the first subscription the other tracks of a player are subscribed to.
const settle = 500 * time.Millisecond

// await waits for a subscriber. It reports false if the broadcast is over before one comes.
func (p *publisher) await() bool {
	select {
	case <-p.demand:
	case <-p.ctx.Done():
		return false
	}
	select {
	case <-time.After(settle):
		return true
	case <-p.ctx.Done():
		return false
	}
}

// discard closes the input if nothing was read of it.
func (p *publisher) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broadcast == nil {
		_ = p.source.Close()
	}
}

// firstGroup is the id of the first group: one that the relay has not seen, since objects must not change (draft §2.1).
// It fails if the session does.
func (p *publisher) firstGroup(l *client.Link) (first uint64, err error) {
	if p.cfg.FirstGroup != nil {
		return *p.cfg.FirstGroup, nil
	}
	ctx, cancel := context.WithTimeout(l.Context(), statusTimeout)
	defer cancel()
	for _, name := range trackNames(p.source.init) {
		ok, err := l.TrackStatus(ctx, moqt.TrackStatus{
			Track:      moqt.FullTrackName{Namespace: p.cfg.Namespace, Name: name},
			Parameters: moqt.Parameters{AuthorizationTokens: p.cfg.Client.Tokens},
		})
		if l.Context().Err() != nil {
			return 0, err
		}
		if err == nil && ok.Parameters.LargestObject != nil {
			first = max(first, ok.Parameters.LargestObject.Group+1)
		}
	}
	if first > 0 {
		p.log.Info("continuing a broadcast that the relay knows", "group", first)
	}
	return first, nil
}

// Serve implements [client.Endpoint].
func (h *handler) Serve(ctx context.Context) error {
	if err := h.p.begin(h.link); err != nil {
		return err
	}
	withdraw, err := h.announce(ctx)
	if err != nil {
		return err
	}
	h.link.Established()
	select {
	case <-h.p.fed:
		h.finish(ctx)
		withdraw()
		return h.p.inputErr()
	case <-ctx.Done(): // the session is lost, or another one takes over
		withdraw()
		close(h.moved)
		h.finish(h.link.Context())
		return context.Cause(ctx)
	}
}

// finish waits until everything has been delivered, as far as that can be told.
func (h *handler) finish(ctx context.Context) {
	for {
		if busy := h.busy(); busy != nil {
			select {
			case <-busy:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(linger):
		case <-ctx.Done():
			return
		}
		if h.busy() == nil {
			return
		}
	}
}

// announce offers the broadcast to the relay.
func (h *handler) announce(ctx context.Context) (withdraw func(), err error) {
	cfg := h.p.cfg
	ns, err := h.link.PublishNamespace(ctx, moqt.PublishNamespace{
		Namespace:  cfg.Namespace,
		Parameters: moqt.Parameters{AuthorizationTokens: cfg.Client.Tokens},
	})
	if err == nil {
		err = ns.Wait(ctx)
	}
	if err != nil {
		return nil, &RefusedError{fmt.Sprintf("publish namespace %s", cfg.Namespace), err}
	}
	h.log.Info("published", "namespace", cfg.Namespace, "relay", h.link.URL)
	if cfg.Publish {
		for _, t := range h.p.broadcast.tracks {
			if err := h.publish(ctx, t); err != nil {
				return nil, &RefusedError{fmt.Sprintf("publish track %s", t.name), err}
			}
		}
	}
	return func() { ns.Cancel(moqt.ResetCancelled) }, nil
}

// publish offers a track with PUBLISH and sends it from the current group on, unless the relay is subscribed already.
func (h *handler) publish(ctx context.Context, t *track) error {
	largest := t.largest()
	p, err := h.link.Publish(ctx, moqt.Publish{
		Track: t.name, Properties: t.properties,
		Parameters: moqt.Parameters{AuthorizationTokens: h.p.cfg.Client.Tokens, LargestObject: largest},
	})
	if errors.Is(err, session.ErrDuplicate) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		if e, ok := errors.AsType[*moqt.RequestError](err); ok &&
			(e.Code == moqt.RequestUninterested || e.Code == moqt.RequestDuplicateSubscription) {
			h.log.Info("the relay does not want a track for now", "track", t.name, "reason", e.Code)
			return nil
		}
		return err
	}
	h.serve(t, p, t.startOf(p.Parameters().Filter, largest))
	return nil
}

// RefusedError says that the relay does not let the broadcast be published.
type RefusedError struct {
	What string
	Err  error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }
