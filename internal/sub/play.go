package sub

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"sluice/internal/client"
	"sluice/internal/cmaf"
	"sluice/moqt"
	"sluice/moqt/session"
)

// Run plays a broadcast until its end, a limit, or the end of the context. Progress is called now and then if it is not
// nil. The result is valid even with an error.
func Run(ctx context.Context, cfg Config, progress func(Progress)) (Result, error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	cfg = cfg.withDefaults()
	p := &playback{cfg: &cfg, log: cfg.Client.Logger, progress: progress, finished: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	if cfg.Verify != nil {
		var err error
		if p.checks, err = newVerifiers(cfg.Verify); err != nil {
			return Result{}, &MediaError{err}
		}
	}
	endpoint := func(l *client.Link) client.Endpoint { return &playing{p: p, link: l} }
	if cfg.Raw {
		shared := &lister{cfg: &cfg, done: make(chan struct{})}
		endpoint = func(l *client.Link) client.Endpoint { return &listing{lister: shared, link: l} }
	}
	err := client.Run(ctx, cfg.Client, endpoint)
	p.cancel(nil)
	p.wait()
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = context.Cause(ctx)
	}
	return p.result(), err
}

// Progress is how far playback is.
type Progress struct {
	Objects, Bytes uint64
	Media          time.Duration
}

// playback is a call of Run.
type playback struct {
	cfg      *Config
	log      *slog.Logger
	progress func(Progress)
	checks   map[uint32]*verifier
	ctx      context.Context
	cancel   context.CancelCauseFunc

	mu       sync.Mutex
	player   *player // nil until the catalog is known
	choices  []choice
	playErr  error
	finished chan struct{} // closed when the player has ended
}

// begin reads the catalog on the first session and starts to play.
func (p *playback) begin(ctx context.Context, l *client.Link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.player != nil {
		return nil
	}
	in, choices, err := (&loader{cfg: p.cfg, link: l, inits: map[string]*cmaf.Init{}}).load(ctx)
	if err != nil {
		return err
	}
	if _, err := p.cfg.Out.Write(in.Data); err != nil {
		return &OutputError{err}
	}
	pl := newPlayer(p.cfg.Out, in, p.cfg.Hold, limits{duration: p.cfg.Duration, objects: p.cfg.Objects})
	for _, c := range choices {
		t := in.Track(c.id)
		pl.addLane(c.name.Name, t, p.checks[c.id])
		p.log.Info("playing", "track", c.name.Name, "codec", t.Codec)
	}
	p.player, p.choices = pl, choices
	go func() {
		defer close(p.finished)
		p.playErr = pl.run(p.ctx)
	}()
	if p.progress != nil {
		go p.report(pl)
	}
	return nil
}

// report tells the progress every now and then.
func (p *playback) report(pl *player) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.progress(pl.snapshot())
		case <-p.finished:
			return
		}
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

// wait waits for the player, if it was started.
func (p *playback) wait() {
	p.mu.Lock()
	started := p.player != nil
	p.mu.Unlock()
	if started {
		<-p.finished
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
			Err: l.failed,
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

// playing uses one session for playback.
type playing struct {
	session.Unsupported
	p    *playback
	link *client.Link
}

// Serve implements [client.Endpoint].
func (e *playing) Serve(ctx context.Context) error {
	p := e.p
	if err := p.begin(ctx, e.link); err != nil {
		return err
	}
	var lanes sync.WaitGroup
	var pending sync.WaitGroup // subscriptions without an answer
	for i, c := range p.choices {
		pending.Add(1)
		lanes.Go(func() {
			e.follow(ctx, c, p.player.lanes[i], sync.OnceFunc(pending.Done))
		})
	}
	go func() {
		pending.Wait()
		e.link.Established()
	}()
	select {
	case <-p.finished:
		return p.playErr
	case <-ctx.Done():
		lanes.Wait()
		return context.Cause(ctx)
	}
}

// follow plays a track on this session until the track has ended, or the session is no longer to be used. answered is
// called when the relay has answered.
func (e *playing) follow(ctx context.Context, c choice, l *lane, answered func()) {
	defer answered()
	for {
		err := e.play(ctx, c, l, answered)
		if ctx.Err() != nil || e.link.Context().Err() != nil || e.p.over() {
			return
		}
		switch e.next(err) {
		case trackEnded:
			e.p.log.Info("track ended", "track", c.name.Name)
			e.end(l, nil)
			return
		case trackLost:
			e.p.log.Warn("track lost", "track", c.name.Name, "error", err)
			e.end(l, err)
			return
		case trackMoves:
			<-ctx.Done() // another session takes over
			return
		}
		e.p.log.Warn("track interrupted, subscribing again", "track", c.name.Name, "error", err)
		select {
		case <-time.After(resubscribe):
		case <-ctx.Done():
			return
		}
	}
}

// verdict is what becomes of a track whose subscription has ended.
type ending int

const (
	trackEnded ending = iota
	trackLost
	trackMoves
	trackInterrupted
)

func (e *playing) next(err error) ending {
	if done, ok := errors.AsType[*session.DoneError](err); ok {
		switch done.Status {
		case moqt.DoneTrackEnded, moqt.DoneSubscriptionEnded:
			return trackEnded
		case moqt.DoneGoingAway: // its publisher moved
			return trackInterrupted
		case moqt.DoneUnauthorized, moqt.DoneMalformedTrack:
			return trackLost
		}
	}
	if errors.Is(err, session.ErrGoingAway) {
		return trackMoves
	}
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if e.p.cfg.patience() <= 0 || ok && refused.RetryInterval == 0 {
		return trackLost
	}
	return trackInterrupted
}

// resubscribe is how long to wait before a track that was lost is subscribed to again.
const resubscribe = 250 * time.Millisecond

func (e *playing) end(l *lane, err error) {
	// It fails only if playback is over.
	_ = e.p.player.update(e.p.ctx, l, func(s *sequencer) {
		l.failed = err
		s.end()
	})
}

// play subscribes to a track, fetches what was published before, and returns why the subscription ended.
func (e *playing) play(ctx context.Context, c choice, l *lane, answered func()) error {
	r := &laneReceiver{e: e, lane: l}
	wait := e.p.cfg.Wait
	r.update(func(s *sequencer) {
		s.fetch(true) // until it is known where playback starts, nothing may be released
		if s.begun {
			wait = e.p.cfg.patience()
		}
	})
	s, largest, err := subscribe(ctx, e.p.cfg, e.link, c.name, wait, r)
	if err != nil {
		return err
	}
	answered()
	defer s.Cancel(moqt.ResetCancelled)
	e.catchUp(ctx, s, r, largest)
	select {
	case <-s.Context().Done():
		return context.Cause(s.Context())
	case <-ctx.Done():
		return ctx.Err()
	case <-e.p.finished:
		return nil
	}
}

// catchUp fetches the objects up to largest that playback needs: those since it was interrupted, or those of the group
// in which it starts.
func (e *playing) catchUp(ctx context.Context, s *session.Subscription, r *laneReceiver, largest *moqt.Location) {
	defer r.update(func(s *sequencer) { s.fetch(false) })
	m := moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningStart: e.p.cfg.Join}
	missed := largest != nil
	r.update(func(s *sequencer) {
		s.resume(largest)
		if s.begun && missed {
			m.FetchType, m.JoiningStart = moqt.FetchAbsoluteJoining, s.next.Group
			missed = !largest.Less(s.next)
		}
	})
	if !missed {
		return
	}
	err := fetch(ctx, e.p.cfg, s, m, *largest, func(i item) {
		r.update(func(s *sequencer) {
			s.start(i.location)
			s.fetched(i)
		})
	})
	if err != nil && ctx.Err() == nil {
		e.p.log.Warn("cannot fetch the start of the current group, starting with the next one", "track", r.lane.name,
			"error", err)
		r.update(func(s *sequencer) { s.start(moqt.Location{Group: largest.Group + 1}) })
	}
}

// laneReceiver passes the objects of a subscription on to the player.
type laneReceiver struct {
	e    *playing
	lane *lane
}

func (r *laneReceiver) update(f func(*sequencer)) {
	_ = r.e.p.player.update(r.e.p.ctx, r.lane, f) // fails only if playback is over
}

// HandleSubgroup implements [session.Receiver].
func (r *laneReceiver) HandleSubgroup(g *session.Subgroup) {
	group, last := g.Header.GroupID, uint64(math.MaxUint64)
	r.update(func(s *sequencer) { s.openStream(group) })
	err := readSubgroup(g, func(h moqt.ObjectHeader, i item) {
		last = h.ObjectID
		r.update(func(s *sequencer) { s.take(h.Status, i) })
	})
	r.update(func(s *sequencer) {
		if over := r.e.p.player.limited; err != nil && !over { // else it is this end that does not want more
			r.lane.resets++
		} else if err == nil && g.Header.EndOfGroup && last != math.MaxUint64 {
			s.endGroup(group, last+1, true)
		}
		s.closeStream(group, err == nil)
	})
	closeOnViolation(g.Subscription.Session(), err)
	if _, malformed := errors.AsType[*moqt.MalformedTrackError](err); malformed || errors.Is(err, errObjectTooLarge) {
		r.e.p.log.Warn("malformed track", "track", r.lane.name, "error", err)
		g.Subscription.Cancel(moqt.ResetMalformedTrack)
	}
}

// HandleDatagram implements [session.Receiver]. It must not block, so that datagrams are dropped while too much is
// buffered.
func (r *laneReceiver) HandleDatagram(o *moqt.ObjectDatagram) {
	r.e.p.player.offer(r.lane, func(s *sequencer) {
		s.take(o.Status, item{location: o.Location, priority: o.Priority, payload: o.Payload, arrived: time.Now()})
		if o.EndOfGroup {
			s.endGroup(o.Location.Group, o.Location.Object+1, true)
		}
	})
}
