package pub

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/clock"
	"sluice/moqt"
	"sluice/player/client"
)

// linger is how long a session is kept after everything has been sent, for retransmissions. A QUIC connection that
// closes drops unacknowledged data, and the API does not tell whether there is any.
const linger = time.Second

// statusTimeout is how long to wait for the relay's answer to TRACK_STATUS.
const statusTimeout = 3 * time.Second

// Run publishes the input until its end, or until the context is done. It counts in stats.
func Run(ctx context.Context, cfg PublisherConfig, stats *Stats) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	s, err := openSource(&cfg)
	if err != nil {
		return err
	}
	if err := checkPackaging(s.init, cfg.Packaging); err != nil {
		_ = s.Close() // err is the cause
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
		err = p.inputErr() // nil: the user ended it
	}
	return err
}

// publisher is a call of Run.
type publisher struct {
	cfg    *PublisherConfig
	source *source
	stats  *Stats
	log    *slog.Logger
	ctx    context.Context // done when the input is to end
	cancel context.CancelFunc

	mu        sync.Mutex    // held while the broadcast is made
	broadcast *broadcast    // valid once ready
	ready     chan struct{} // closed when there is a broadcast
	wantOnce  sync.Once
	demand    chan struct{} // closed at the first subscription to media
	fed       chan struct{} // closed when the input has ended
	feedErr   error
}

func (p *publisher) endpoint(l *client.Link) client.Endpoint {
	return &handler{p: p, link: l, log: p.log, moved: make(chan struct{})}
}

func (p *publisher) wanted() { p.wantOnce.Do(func() { close(p.demand) }) }

// begin makes the broadcast and starts to feed it, on the first session on which that succeeds. Nobody waits while it
// asks the relay.
func (p *publisher) begin(ctx context.Context, l *client.Link) error {
	if p.hasBegun() {
		return nil
	}
	first, err := p.firstGroup(ctx, l)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.broadcast != nil: // of another session
		return nil
	case err != nil:
		return err
	case p.ctx.Err() != nil: // the input may be closed
		return context.Cause(p.ctx)
	}
	if p.broadcast, err = newBroadcast(p.cfg, p.source, first); err != nil {
		return err
	}
	close(p.ready)
	go p.feed(&feed{
		cfg: p.cfg, init: p.source.init, broadcast: p.broadcast,
		groups: newGrouper(p.source.init, p.source.alternatives(), first), stats: p.stats, log: p.log,
	})
	return nil
}

func (p *publisher) hasBegun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broadcast != nil
}

func (p *publisher) feed(f *feed) {
	defer close(p.fed)
	defer p.broadcast.end()
	go p.repeat()
	if p.cfg.Wait && !p.await() {
		_ = p.source.Close()
		return
	}
	done := make(chan error, 1)
	go func() { done <- f.run(p.ctx, p.source) }() // a read of standard input may block forever
	select {
	case p.feedErr = <-done:
	case <-p.ctx.Done():
	}
}

// repeatInterval is how often catalogs and the init segment are published again.
const repeatInterval = 3 * time.Second

// repeat publishes the tracks that have one object again and again. A relay subscribes once for all its subscribers, so
// the publisher does not learn of one that comes later, and has no other way to serve one that asks for nothing past.
func (p *publisher) repeat() {
	for range clock.Every(repeatInterval, p.fed) {
		p.broadcast.repeat()
	}
}

// inputErr returns the error that ended the input, or nil.
func (p *publisher) inputErr() error {
	select {
	case <-p.fed:
		return p.feedErr
	default:
		return nil
	}
}

// settle is how long to wait after the first subscription: a player subscribes to its other tracks next.
const settle = 500 * time.Millisecond

// await waits for a subscriber. It returns false if the broadcast ends first.
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

// discard closes the input if none of it was published.
func (p *publisher) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broadcast == nil {
		_ = p.source.Close()
	}
}

// firstGroup returns an id for the first group that the relay has not seen: objects must not change (draft §2.1). It
// returns an error if the context ends.
func (p *publisher) firstGroup(ctx context.Context, l *client.Link) (first uint64, err error) {
	if p.cfg.FirstGroup != nil {
		return *p.cfg.FirstGroup, nil
	}
	asked, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	var asking sync.WaitGroup
	names := trackNames(p.source.init, p.cfg)
	next := make([]uint64, len(names)) // 0: not known
	for i, name := range names {
		// All at once: the relay may ask a publisher that has crashed for those that nobody watches.
		asking.Go(func() { next[i] = p.nextGroup(asked, l, name) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	first = slices.Max(next)
	if first > 0 {
		p.log.Info("continuing a broadcast that the relay knows", "group", first)
	}
	return first, nil
}

// nextGroup returns an id for the next group of a track that the relay knows, or 0.
func (p *publisher) nextGroup(ctx context.Context, l *client.Link, name string) uint64 {
	ok, err := l.TrackStatus(ctx, moqt.TrackStatus{
		Track:      moqt.FullTrackName{Namespace: p.cfg.Namespace, Name: name},
		Parameters: moqt.Parameters{AuthorizationTokens: p.cfg.Client.Tokens},
	})
	if err != nil || ok.Parameters.LargestObject == nil {
		return 0
	}
	return ok.Parameters.LargestObject.Group + 1
}

// RefusedError is the relay's refusal of the broadcast.
type RefusedError struct {
	What string
	Err  error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }
