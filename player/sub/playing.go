package sub

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/client"
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
			e.p.log.Warn("track lost", "track", l.name, "error", err)
			e.end(l, err)
			return
		case trackMoves:
			<-ctx.Done() // another session replaces this one
			return
		}
		e.p.log.Warn("track interrupted, subscribing again", "track", l.name, "error", err)
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
		largest = r.first.predecessor(s)
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
	err := fetch(ctx, e.p.cfg, s, m, *largest, func(i item) {
		r.update(func(s *sequencer) {
			i.source = r.source
			s.start(i.location)
			s.fetched(i)
		})
	})
	if errors.Is(err, errMemory) {
		e.p.ranOut()
	}
	if err != nil && ctx.Err() == nil {
		e.p.log.Warn("cannot fetch the start of the current group, starting with the next one", "track", r.lane.name,
			"error", err)
		r.update(func(s *sequencer) { s.start(moqt.Location{Group: largest.Group + 1}) })
	} else if !known {
		r.update(func(s *sequencer) { s.fetchedTo(largest.Group + 1) })
	}
}
