package pub

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/clock"
	"sluice/player/client"
)

// linger is how long a session is kept after everything has been sent, for retransmissions. A QUIC connection that
// closes drops unacknowledged data, and the API does not tell whether there is any.
const linger = time.Second

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
	b, err := newBroadcast(&cfg, s)
	if err != nil {
		_ = s.Close() // err is the cause
		return err
	}
	p := &publisher{
		cfg: &cfg, source: s, broadcast: b, stats: stats, log: cfg.Client.Logger,
		demand: make(chan struct{}), fed: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	defer p.cancel()
	err = client.Run(ctx, cfg.Client, p.endpoint)
	p.cancel()
	p.begin.Do(func() { _ = s.Close() }) // none of it was published
	if ctx.Err() != nil {
		err = p.inputErr() // nil: the user ended it
	}
	return err
}

// publisher is a call of Run.
type publisher struct {
	cfg       *PublisherConfig
	source    *source
	broadcast *broadcast
	stats     *Stats
	log       *slog.Logger
	ctx       context.Context // done when the input is to end
	cancel    context.CancelFunc

	begin    sync.Once // feed, or the input's end
	wantOnce sync.Once
	demand   chan struct{} // closed at the first subscription to media
	fed      chan struct{} // closed when the input has ended
	feedErr  error
}

func (p *publisher) endpoint(l *client.Link) client.Endpoint {
	return &handler{p: p, link: l, log: p.log, moved: make(chan struct{})}
}

func (p *publisher) wanted() { p.wantOnce.Do(func() { close(p.demand) }) }

func (p *publisher) feed() {
	defer close(p.fed)
	defer p.broadcast.end()
	go p.repeat()
	if p.cfg.Wait && !p.await() {
		_ = p.source.Close()
		return
	}
	f := &feed{
		cfg: p.cfg, init: p.source.init, broadcast: p.broadcast,
		groups: newGrouper(p.source.init, p.source.alternatives(), *p.cfg.FirstGroup), stats: p.stats, log: p.log,
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

// RefusedError is the relay's refusal of the broadcast.
type RefusedError struct {
	What string
	Err  error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }
