package sub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/catalog"
	"sluice/player/client"
	"sluice/player/cmaf"
)

// playing uses one session for playback.
type playing struct {
	session.Unsupported
	p    *playback
	link *client.Link
}

// Serve implements [client.Endpoint].
func (e *playing) Serve(ctx context.Context) error {
	p := e.p
	loading, cancel := whileBoth(ctx, p.ctx)
	defer cancel(nil)
	var catalog *contents
	err := p.safely(func() (err error) {
		catalog, err = p.begin(loading, e.link)
		return err
	})
	if err != nil {
		return err
	}
	if catalog == nil { // some publishers want to be asked for it first; the others are not waited for
		catalog, _ = subscribeContents(loading, p.cfg, e.link, p.catalog, 0)
	}
	go p.try(func() { e.followCatalog(loading, catalog) })
	var lanes sync.WaitGroup
	var pending sync.WaitGroup // subscriptions without an answer
	for _, l := range p.player.lanes {
		pending.Add(1)
		lanes.Go(func() {
			p.try(func() { e.follow(ctx, l, sync.OnceFunc(pending.Done)) })
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

// follow plays a track until the track or the use of this session has ended. It calls answered when the relay has
// answered the subscription, or there is none.
func (e *playing) follow(ctx context.Context, l *lane, answered func()) {
	defer answered()
	for {
		err := e.play(ctx, l, answered)
		if ctx.Err() != nil || e.link.Context().Err() != nil || e.p.over() {
			return
		}
		if errors.Is(err, errLayers) {
			continue
		}
		next := e.next(err)
		switch {
		case next == trackMoves:
		case l.listed.Err() != nil:
			next = trackEnded
		case e.isWithdrawn(l): // another rendition goes on
			continue
		}
		switch next {
		case trackEnded:
			e.p.log.Info("track ended", "track", l.name)
			e.end(l, nil)
			return
		case trackLost:
			e.p.log.Warn("track lost", "track", l.name, "err", err)
			e.end(l, err)
			return
		case trackMoves:
			<-ctx.Done() // another session replaces this one
			return
		}
		e.p.log.Warn("track interrupted, subscribing again", "track", l.name, "err", err)
		select {
		case <-time.After(resubscribe):
		case <-l.listed.Done():
		case <-ctx.Done():
			return
		}
	}
}

// ending is what the end of a subscription means for its track.
type ending int

const (
	trackEnded       ending = iota // nothing more will come
	trackLost                      // nothing more will come, because of an error
	trackMoves                     // another session goes on
	trackInterrupted               // to be subscribed to again
)

func (e *playing) next(err error) ending {
	if done, ok := errors.AsType[*session.DoneError](err); ok {
		switch done.Status {
		case moqt.DoneTrackEnded, moqt.DoneSubscriptionEnded:
			return trackEnded
		case moqt.DoneGoingAway: // the publisher moves to another session
			return trackInterrupted
		case moqt.DoneUnauthorized, moqt.DoneMalformedTrack:
			return trackLost
		}
	}
	if errors.Is(err, session.ErrGoingAway) {
		return trackMoves
	}
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if e.p.cfg.publisherTimeout() <= 0 || ok && refused.RetryInterval == 0 {
		return trackLost
	}
	return trackInterrupted
}

// resubscribe is how long to wait before an interrupted track is subscribed to again.
const resubscribe = 250 * time.Millisecond

func (e *playing) end(l *lane, err error) {
	// update fails only if playback is over.
	_ = e.p.player.update(e.p.ctx, l, func(s *sequencer) {
		l.failed = err
		s.end()
	})
}

// play subscribes to a track, and to its other renditions if the relay chooses, fetches earlier objects, and returns
// why the subscription ended.
func (e *playing) play(ctx context.Context, l *lane, answered func()) error {
	if err := l.listed.Err(); err != nil { // in an earlier session
		return err
	}
	relayed, err := e.relayChooses(ctx, l)
	if err != nil {
		return err
	}
	r := &laneReceiver{e: e, lane: l, first: newArrival()}
	wait, begun := e.p.cfg.Wait, false
	r.update(func(s *sequencer) {
		r.source = l.wantedLocked()
		l.subscribed = r.source
		s.fetch(true) // nothing is released until the start of playback is known
		if begun = s.begun; begun {
			wait = e.p.cfg.publisherTimeout()
		}
	})
	var p moqt.Parameters
	if relayed {
		p.Rendition = r.rendition()
	}
	asking, stop := whileBoth(ctx, l.listed)
	defer stop(nil)
	s, largest, err := e.subscribe(asking, r, fromNow, p, wait)
	if err != nil {
		r.update(func(s *sequencer) { s.fetch(false) })
		return err
	}
	known := largest != nil
	if known || !begun {
		answered()
	}
	r.setTimescale(s)
	if relayed {
		defer e.offerOthers(ctx, r)()
		go e.p.try(func() { e.tellDisplay(ctx, s) })
	}
	if !known && begun {
		r.update(func(s *sequencer) { s.fetch(false) })
		largest = r.first.predecessor(ctx, s)
		r.update(func(s *sequencer) { s.fetch(true) })
	}
	e.catchUp(ctx, s, r, largest, known)
	answered()
	return e.stay(ctx, s, r)
}

// isWithdrawn reports whether the catalog does not have the rendition any more that was subscribed to last.
func (e *playing) isWithdrawn(l *lane) bool {
	e.p.player.mu.Lock()
	defer e.p.player.mu.Unlock()
	return l.isWithdrawnLocked()
}

// stay plays a subscription until it ends.
func (e *playing) stay(ctx context.Context, s *session.Subscription, r *laneReceiver) error {
	defer s.Cancel(moqt.ResetCancelled)
	select {
	case <-r.layers.lost():
		return e.takeWhole(r, errors.New("the relay forwards only one subgroup of each group"))
	case <-s.Context().Done():
		return e.ended(r, context.Cause(s.Context()))
	case <-r.lane.played.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.p.finished:
		return nil
	}
}

// catchUp fetches the objects up to largest that playback needs: the objects since the interruption, or of the group in
// which playback starts. The subscription begins behind largest if the relay knew that object.
func (e *playing) catchUp(
	ctx context.Context, s *session.Subscription, r *laneReceiver, largest *moqt.Location, known bool,
) {
	defer r.update(func(s *sequencer) { s.fetch(false) })
	if largest == nil {
		return
	}
	m, missed := moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningStart: e.p.cfg.Join}, known
	r.update(func(s *sequencer) {
		if known {
			s.resume(largest.Group)
		}
		if s.begun {
			m.FetchType, m.JoiningStart = moqt.FetchAbsoluteJoining, s.next.Group
			missed = !largest.Less(s.next)
		}
	})
	if !missed {
		return
	}
	if !known {
		m.FetchType = moqt.FetchStandalone
	}
	var brought fetched
	err := fetch(ctx, e.p.cfg, s, m, *largest, func(i item) {
		r.update(func(s *sequencer) {
			i.source = r.source
			s.start(i.location)
			brought.add(s, i)
		})
	})
	if errors.Is(err, errMemory) {
		e.p.ranOut()
	}
	if err != nil && ctx.Err() == nil {
		e.p.log.Warn("cannot fetch the start of the current group, starting with the next one", "track", r.lane.name,
			"err", err)
		r.update(func(s *sequencer) { s.start(moqt.Location{Group: largest.Group + 1}) })
	} else if !known {
		r.update(func(s *sequencer) { brought.reach(s, largest.Group+1) })
	}
}

// followCatalog takes notice of new catalogs while the session plays. It begins with a subscription, unless that is
// nil, and always has one: some publishers end a session in which nobody subscribes to their catalog.
func (e *playing) followCatalog(ctx context.Context, c *contents) {
	for {
		var err error
		if c == nil {
			c, err = subscribeContents(ctx, e.p.cfg, e.link, e.p.catalog, e.p.cfg.publisherTimeout())
		}
		if err == nil {
			err = e.readCatalogs(ctx, c)
			c.end()
		}
		if ctx.Err() != nil || e.next(err) != trackInterrupted {
			return
		}
		c = nil
		select {
		case <-time.After(resubscribe):
		case <-ctx.Done():
			return
		}
	}
}

// readCatalogs takes notice of the catalogs that a subscription brings, until it ends.
func (e *playing) readCatalogs(ctx context.Context, c *contents) error {
	for {
		content, err := c.next(ctx)
		if err != nil {
			return err
		}
		e.p.log.Debug("new catalog", "content", string(content))
		if now, err := catalog.Parse(content); err != nil {
			e.p.log.Warn("cannot read the new catalog, going on by the one before", "err", err)
		} else {
			e.p.withdraw(now)
			e.renew(ctx, now)
		}
	}
}

// renew takes the renditions of each lane from a new catalog, if the relay may choose.
func (e *playing) renew(ctx context.Context, c catalog.Catalog) {
	if !e.p.cfg.automatic() || e.p.cfg.Verify != nil {
		return
	}
	tracks, err := selectTracks(c, e.p.cfg)
	if err != nil {
		return // the selected track is not there any more
	}
	loader := &loader{cfg: e.p.cfg, link: e.link, inits: map[string]*cmaf.Init{}}
	for _, t := range tracks {
		group := append([]catalog.TrackEntry{t.TrackEntry}, t.others...)
		if l := e.p.laneOf(group); l != nil {
			e.renewLane(ctx, loader, c, l, group)
		}
	}
}

// renewLane gives a lane the renditions of a group. Those that it does not have yet are loaded.
func (e *playing) renewLane(
	ctx context.Context, load *loader, c catalog.Catalog, l *lane, group []catalog.TrackEntry,
) {
	var sources []*source
	for _, t := range group {
		e.p.player.mu.Lock()
		s, playing := e.p.sourceLocked(l, t), l.source
		e.p.player.mu.Unlock()
		if s == nil {
			choice, err := load.choice(ctx, c, t)
			if err == nil {
				s, err = newSource(choice, l.id)
			}
			if err != nil || !s.continues(playing) {
				e.p.log.Warn("cannot play a new rendition", "track", t.Name, "err", err)
				continue
			}
			e.p.log.Info("new rendition", "track", t.Name)
		}
		sources = append(sources, s)
	}
	e.p.player.mu.Lock()
	defer e.p.player.mu.Unlock()
	if len(sources) > 0 {
		l.renditions = sources
	}
}

// relayChooses reports whether the relay is to choose among the renditions of a lane, and can.
func (e *playing) relayChooses(ctx context.Context, l *lane) (bool, error) {
	if !e.p.cfg.automatic() || len(e.p.player.sourcesOf(l)) < 2 {
		return false, nil
	}
	peer, err := e.link.Peer(ctx)
	can := peer.Renditions && e.link.Version() >= moqt.Draft18
	if err == nil && !can {
		e.p.log.Info("this relay does not choose renditions, so the first one goes on", "relay", e.link.Name())
	}
	return can, err
}

// tellDisplay tells the relay the size of the display, if it is known. What waits to be shown is not: that is with the
// program that reads the output.
func (e *playing) tellDisplay(ctx context.Context, s *session.Subscription) {
	display := moqt.Playback{Width: uint64(e.p.cfg.Width), Height: uint64(e.p.cfg.Height)}
	if display == (moqt.Playback{}) {
		return
	}
	if _, err := s.Update(ctx, moqt.Parameters{Playback: &display}); err != nil {
		e.p.log.Debug("cannot tell the relay the size of the display", "err", err)
	}
}

// offerOthers subscribes to the other renditions, of which the relay sends nothing until it changes to one. A rendition
// that cannot be had is left out. The function that it returns ends the subscriptions.
func (e *playing) offerOthers(ctx context.Context, playing *laneReceiver) (end func()) {
	var subs []*session.Subscription
	for _, source := range e.p.player.sourcesOf(playing.lane) {
		if source == playing.source {
			continue
		}
		r := &laneReceiver{e: e, lane: playing.lane, source: source, first: playing.first}
		p := moqt.Parameters{Rendition: r.rendition(), Forward: new(bool)}
		s, _, err := e.subscribe(ctx, r, fromNextGroup, p, 0)
		if err != nil {
			e.p.log.Warn("the relay cannot change to a rendition", "track", e.name(source).Name, "err", err)
			continue
		}
		r.setTimescale(s)
		subs = append(subs, s)
	}
	return func() {
		for _, s := range subs {
			s.Cancel(moqt.ResetCancelled)
		}
	}
}

// name returns the track to subscribe to for a source: the one in layers, unless they cannot be had.
func (e *playing) name(s *source) moqt.FullTrackName {
	if e.p.whole.Load() {
		return e.p.cfg.fullName(s.entry)
	}
	return s.choice.name
}

// subscribe subscribes to the track of r, from where a filter says. If the track in layers is refused, it takes the one
// with whole groups.
func (e *playing) subscribe(
	ctx context.Context, r *laneReceiver, from moqt.Filter, p moqt.Parameters, wait time.Duration,
) (*session.Subscription, *moqt.Location, error) {
	m := request(e.name(r.source), from)
	p.Filter = m.Parameters.Filter
	m.Parameters = p
	r.update(func(*sequencer) {
		r.layers, r.replaced = nil, false
		if m.Track.Name != r.source.entry.Name {
			r.layers = &layers{missing: make(chan struct{})}
		}
	})
	s, largest, err := subscribe(ctx, e.p.cfg, e.link, m, wait, r)
	if r.layers != nil && lacksLayers(err) {
		_ = e.takeWhole(r, err)
		return e.subscribe(ctx, r, from, p, 0) // the publisher was waited for
	}
	return s, largest, err
}

// ended returns why a subscription of r ended.
func (e *playing) ended(r *laneReceiver, cause error) error {
	if lacksLayers(cause) && r.unproven() {
		return e.takeWhole(r, cause)
	}
	return cause
}

// takeWhole makes playback subscribe to tracks with whole groups from now on.
func (e *playing) takeWhole(r *laneReceiver, cause error) error {
	e.p.whole.Store(true)
	r.update(func(s *sequencer) {
		r.replaced = true
		s.forgetStreams()
	})
	e.p.log.Warn("the layers of video do not come, going on without", "track", r.source.choice.name.Name,
		"instead", r.source.entry.Name, "err", cause)
	return fmt.Errorf("%w: %w", errLayers, cause)
}
