package sub

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/clock"
	"sluice/player/catalog"
	"sluice/player/client"
	"sluice/player/cmaf"
)

// Run plays a broadcast until its end, a limit, or the end of the context. It calls progress twice a second, unless
// that is nil. The result is valid even with an error.
func Run(ctx context.Context, cfg PlayerConfig, progress func(Progress)) (Result, error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	cfg = cfg.withDefaults()
	p := &playback{cfg: &cfg, log: cfg.Client.Logger, progress: progress, finished: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	cfg.try = p.try
	defer p.cancel(nil)
	if cfg.Verify != nil {
		var err error
		if p.checks, err = newVerifiers(cfg.Verify); err != nil {
			return Result{}, &MediaError{err}
		}
	}
	endpoint := func(l *client.Link) client.Endpoint { return &playing{p: p, link: l} }
	if cfg.Raw {
		shared := &lister{cfg: &cfg, ctx: p.ctx, tracks: make(map[string]*listed), done: make(chan struct{})}
		endpoint = func(l *client.Link) client.Endpoint { return &listing{lister: shared, link: l} }
	}
	err := client.Run(ctx, cfg.Client, endpoint)
	if cause := context.Cause(p.ctx); cause != nil && ctx.Err() == nil {
		err = cause // a panic or a lack of memory: who waited for the relay may know only that the context is done
	}
	p.cancel(nil)
	p.wait()
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = context.Cause(ctx)
	}
	return p.result(), err
}

// whileBoth returns a context that is done when either of two is, with the cause.
func whileBoth(ctx, other context.Context) (context.Context, context.CancelCauseFunc) {
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return both, func(err error) {
		stop()
		cancel(err)
	}
}

// Progress counts what has been played so far.
type Progress struct {
	Objects, Bytes uint64
	Media          time.Duration
}

// playback is a call of Run.
type playback struct {
	cfg      *PlayerConfig
	log      *slog.Logger
	progress func(Progress)
	checks   map[uint32]*verifier
	ctx      context.Context
	cancel   context.CancelCauseFunc

	mu       sync.Mutex
	player   *player // nil until the catalog is known
	catalog  string  // the track that has it
	playErr  error
	finished chan struct{} // closed when the player has ended
	reports  sync.WaitGroup
	whole    atomic.Bool // no tracks in layers are subscribed to any more
}

// begin reads the catalog, unless that was done on a session before, and starts to play. It returns the subscription to
// the catalog. A session that replaces one on which the relay thinks does not wait for it: it reads the catalog, too,
// and playback begins with the one that comes first.
func (p *playback) begin(ctx context.Context, l *client.Link) (*contents, error) {
	if p.hasBegun() {
		return nil, nil
	}
	loader := &loader{cfg: p.cfg, link: l, inits: map[string]*cmaf.Init{}}
	in, choices, err := loader.load(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.player != nil {
		return loader.catalog, nil
	}
	if err == nil {
		err = p.start(in, choices)
	}
	if err != nil {
		if loader.catalog != nil {
			loader.catalog.end()
		}
		return nil, err
	}
	p.catalog = loader.catalog.sub.Track().Name
	return loader.catalog, nil
}

func (p *playback) hasBegun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.player != nil
}

// start starts the player.
func (p *playback) start(in *cmaf.Init, choices []choice) error {
	pl := newPlayer(p.cfg.Out, in, p.cfg.Hold, limits{duration: p.cfg.Duration, objects: p.cfg.Objects})
	pl.memory, pl.log = p.cfg.Memory, p.log
	pl.startTimeout = max(minStartTimeout, p.cfg.Wait, p.cfg.Hold)
	if err := p.addLanes(pl, choices); err != nil {
		return err
	}
	if pl.headed = !slices.ContainsFunc(choices, choice.frames); pl.headed {
		if _, err := p.cfg.Out.Write(in.Data); err != nil {
			return &OutputError{err}
		}
	}
	p.player = pl
	go func() {
		defer close(p.finished)
		p.playErr = p.safely(func() error { return pl.run(p.ctx) })
	}()
	if p.progress != nil {
		p.reports.Go(func() { p.report(pl) })
	}
	return nil
}

func (p *playback) addLanes(pl *player, choices []choice) error {
	for _, c := range choices {
		s, err := newSource(c, c.id)
		if err != nil {
			return err
		}
		l := pl.add(&lane{source: s, id: c.id, name: c.name.Name, check: p.checks[c.id]})
		if l.check != nil && c.frames() {
			if err := l.check.useFrames(); err != nil {
				return &MediaError{err}
			}
		}
		if len(c.others) > 0 {
			if l.renditions, err = renditionsOf(c, s); err != nil {
				return err
			}
		}
		p.log.Info("playing", "track", c.name.Name, "codec", s.codec())
	}
	return nil
}

// safely calls f. If f panics, which takes apart what a publisher has made up, playback ends, and not the process: that
// may play the broadcasts of many publishers.
func (p *playback) safely(f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &MediaError{fmt.Errorf("panic: %v\n%s", cause, debug.Stack())}
			p.cancel(err)
		}
	}()
	return f()
}

// try is safely for what has no error.
func (p *playback) try(f func()) {
	_ = p.safely(func() error { f(); return nil }) // the error ends playback
}

// report calls progress until the player has ended.
func (p *playback) report(pl *player) {
	for range clock.Every(500*time.Millisecond, p.finished) {
		p.progress(pl.snapshot())
	}
}

// over reports whether playback has ended.
func (p *playback) over() bool {
	select {
	case <-p.finished:
		return true
	default:
		return p.ctx.Err() != nil
	}
}

// wait waits for the player, and for the last call of progress, if it was started.
func (p *playback) wait() {
	if p.hasBegun() {
		<-p.finished
		p.reports.Wait()
	}
}

func (p *playback) result() (r Result) {
	if p.player == nil {
		return r
	}
	pl := p.player
	pl.mu.Lock()
	defer pl.mu.Unlock()
	r.Media = pl.last - pl.first
	for _, l := range pl.lanes {
		t := TrackResult{
			Name: l.name, Counters: l.seq.counted, SHA256: hex.EncodeToString(l.sum.Sum(nil)), Resets: l.resets,
			Err: l.failed, Switches: l.switches,
		}
		if v := l.check; v != nil {
			if !pl.limited {
				v.finish()
			}
			t.Verified, t.Different, t.Missing = v.same, v.differ, v.missing
		}
		r.Tracks = append(r.Tracks, t)
	}
	return r
}

// withdraw ends the tracks that a new catalog does not have any more, with their subscriptions.
func (p *playback) withdraw(c catalog.Catalog) {
	has := make(map[string]bool)
	for _, t := range c.Tracks {
		has[p.cfg.fullName(t).Key()] = true
	}
	p.player.mu.Lock()
	defer p.player.mu.Unlock()
	for _, l := range p.player.lanes {
		listed := func(s *source) bool { return has[p.cfg.fullName(s.entry).Key()] }
		if gone := !slices.ContainsFunc(l.sourcesLocked(), listed); gone && l.listed.Err() == nil {
			p.log.Info("the catalog does not have the track any more", "track", l.name)
			l.withdraw()
		}
	}
}

// laneOf returns the lane that plays one of the tracks, or nil.
func (p *playback) laneOf(group []catalog.TrackEntry) *lane {
	p.player.mu.Lock()
	defer p.player.mu.Unlock()
	for _, l := range p.player.lanes {
		for _, t := range group {
			if p.sourceLocked(l, t) != nil {
				return l
			}
		}
	}
	return nil
}

// sourceLocked returns the source of a lane with the name of a track, or nil.
func (p *playback) sourceLocked(l *lane, t catalog.TrackEntry) *source {
	name := p.cfg.fullName(t)
	i := slices.IndexFunc(l.sourcesLocked(), func(s *source) bool { return p.cfg.fullName(s.entry).Equal(name) })
	if i < 0 {
		return nil
	}
	return l.sourcesLocked()[i]
}

// ranOut ends playback because there is no memory for an object that is on its way.
func (p *playback) ranOut() { p.cancel(&MediaError{errMemory}) }
