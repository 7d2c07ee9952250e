package sub

import (
	"context"
	"slices"
	"time"

	"sluice/player/catalog"
	"sluice/player/cmaf"
)

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
			e.p.log.Warn("cannot read the new catalog, going on by the one before", "error", err)
		} else {
			e.p.withdraw(now)
			e.renew(ctx, now)
		}
	}
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
				e.p.log.Warn("cannot play a new rendition", "track", t.Name, "error", err)
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
