package sub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/client"
	"sluice/player/cmaf"
)

// choice is a track to play.
type choice struct {
	name  moqt.FullTrackName
	id    uint32             // in the init segment
	entry catalog.TrackEntry // of the catalog
	init  *cmaf.Init         // nil: objects are frames

	others []choice // renditions of the same content, of which playback chooses
}

// frames reports whether the objects of the track are frames without a container.
func (c choice) frames() bool { return c.entry.Packaging != "" && c.entry.Packaging != catalog.CMAF }

// loader reads the catalog and the init segments of a broadcast.
type loader struct {
	cfg     *PlayerConfig
	link    *client.Link
	inits   map[string]*cmaf.Init // by the name of the track that they came from
	catalog *contents             // the subscription to the catalog that was read; nil: none was
}

// load reads the catalog and the init segments, and chooses the tracks. The init segment is nil if no track has one.
func (l *loader) load(ctx context.Context) (*cmaf.Init, []choice, error) {
	c, err := l.readCatalog(ctx)
	if err != nil {
		return nil, nil, err
	}
	tracks, err := selectTracks(c, l.cfg)
	if err != nil {
		return nil, nil, &MediaError{err}
	}
	var inits []*cmaf.Init
	var choices []choice
	for _, t := range tracks {
		one, err := l.choice(ctx, c, t.TrackEntry)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range t.others {
			other, err := l.choice(ctx, c, o)
			if err != nil {
				return nil, nil, err
			}
			one.others = append(one.others, other)
		}
		if one.init != nil && !slices.Contains(inits, one.init) {
			inits = append(inits, one.init)
		}
		choices = append(choices, one)
	}
	var in *cmaf.Init
	if len(inits) > 0 {
		if in, err = combine(inits, choices); err != nil {
			return nil, nil, err
		}
	}
	number(choices)
	return in, choices, nil
}

// choice returns a track of the catalog, with its init segment.
func (l *loader) choice(ctx context.Context, c catalog.Catalog, t catalog.TrackEntry) (choice, error) {
	one := choice{name: l.cfg.fullName(t), entry: t}
	if t.Layers != "" {
		one.name.Name = t.Layers
	}
	if one.frames() {
		return one, nil
	}
	var err error
	if one.init, err = l.init(ctx, t); err != nil {
		return one, fmt.Errorf("init segment of track %s: %w", t.Name, err)
	}
	if one.id, err = trackID(one.init, c, t); err != nil {
		return one, &MediaError{err}
	}
	return one, nil
}

// number gives each track of frames the id in its name, as in "1.loc", or else one that no other track has.
func number(choices []choice) {
	taken := map[uint32]bool{0: true}
	for _, c := range choices {
		taken[c.id] = true
	}
	for i := range choices {
		c := &choices[i]
		if !c.frames() {
			continue
		}
		name, _, _ := strings.Cut(c.name.Name, ".")
		id, err := strconv.ParseUint(name, 10, 31)
		if c.id = uint32(id); err != nil {
			c.id = 0
		}
		for taken[c.id] {
			c.id++
		}
		taken[c.id] = true
	}
}

// fullName returns the full name of a track. A catalog may name another namespace.
func (c *PlayerConfig) fullName(t catalog.TrackEntry) moqt.FullTrackName {
	ns := c.Namespace
	if t.Namespace != "" && t.Namespace != strings.Join(ns, "/") {
		ns = strings.Split(strings.Trim(t.Namespace, "/"), "/")
	}
	return moqt.FullTrackName{Namespace: ns, Name: t.Name}
}

// readCatalog reads the catalog, when there is a publisher.
func (l *loader) readCatalog(ctx context.Context) (c catalog.Catalog, err error) {
	if l.link.Version().HasRendezvous() {
		return l.tryCatalogs(ctx, l.cfg.Wait)
	}
	err = untilPublished(ctx, l.link, l.cfg.Wait, func() error { // it may have the last one only
		c, err = l.tryCatalogs(ctx, 0)
		return err
	})
	return c, err
}

// tryCatalogs reads the first of Config.Catalogs that the publisher has. Some publishers accept any name and then end
// the subscription, so every refusal but a timeout means that there is none of this name.
func (l *loader) tryCatalogs(ctx context.Context, wait time.Duration) (catalog.Catalog, error) {
	var reason error // why there is none; that a name does not exist says least
	for _, name := range l.cfg.Catalogs {
		b, err := l.firstCatalog(ctx, name, wait)
		if err != nil {
			code, refused := refusal(err)
			if ctx.Err() != nil || l.link.Context().Err() != nil || refused && code == moqt.RequestTimeout {
				return catalog.Catalog{}, fmt.Errorf("catalog: %w", err)
			}
			if reason == nil || !refused || code != moqt.RequestDoesNotExist {
				reason = err
			}
			continue
		}
		c, err := catalog.Parse(b)
		if err != nil {
			return c, &MediaError{fmt.Errorf("track %s: %w", name, err)}
		}
		l.cfg.Client.Logger.Debug("catalog", "track", name, "content", string(b))
		return c, nil
	}
	return catalog.Catalog{}, fmt.Errorf("no catalog: %w", reason)
}

// firstCatalog reads the catalog of that name, and keeps the subscription.
func (l *loader) firstCatalog(ctx context.Context, name string, wait time.Duration) ([]byte, error) {
	c, err := subscribeContents(ctx, l.cfg, l.link, name, wait)
	if err != nil {
		return nil, err
	}
	b, err := c.first(ctx)
	if err != nil {
		c.end()
		return nil, err
	}
	l.catalog = c
	return b, nil
}

// refusal returns the code with which a request was refused.
func refusal(err error) (moqt.RequestErrorCode, bool) {
	e, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		return 0, false
	}
	return e.Code.Effective(), true
}

// playable are the packagings that can be played. A catalog without one means CMAF.
var playable = []string{"", catalog.CMAF, catalog.LOC, catalog.HangLegacy, catalog.HangLOC}

// names lists the tracks of a catalog for an error.
func names(c catalog.Catalog) string {
	var list []string
	for _, t := range c.Tracks {
		list = append(list, fmt.Sprintf("%s (%s, %s)", t.Name, t.Role, t.Packaging))
	}
	if len(list) == 0 {
		return "no tracks"
	}
	return strings.Join(list, ", ")
}

// init returns the init segment of a track.
func (l *loader) init(ctx context.Context, t catalog.TrackEntry) (*cmaf.Init, error) {
	key, data := t.InitTrack, t.InitData
	if len(data) > 0 {
		key = "inline " + string(data)
	}
	if in := l.inits[key]; in != nil {
		return in, nil
	}
	if len(data) == 0 {
		if t.InitTrack == "" {
			return nil, &MediaError{errors.New("the catalog does not say where it is")}
		}
		var err error
		if data, err = firstContent(ctx, l.cfg, l.link, t.InitTrack); err != nil {
			return nil, err
		}
	}
	if !l.cfg.Memory.Take(len(data)) {
		return nil, &MediaError{errMemory}
	}
	in, err := cmaf.ParseInit(data)
	if err != nil {
		return nil, &MediaError{err}
	}
	l.inits[key] = in
	return in, nil
}

// trackID returns the id of a catalog's track in its init segment: the only one, the one in its name "ID.m4s", or the
// one in the same place.
func trackID(in *cmaf.Init, c catalog.Catalog, t catalog.TrackEntry) (uint32, error) {
	if len(in.Tracks) == 1 {
		return in.Tracks[0].ID, nil
	}
	id, err := strconv.ParseUint(strings.TrimSuffix(t.Name, ".m4s"), 10, 32)
	if err == nil && in.Track(uint32(id)) != nil {
		return uint32(id), nil
	}
	i := slices.IndexFunc(c.Tracks, func(o catalog.TrackEntry) bool {
		return o.Name == t.Name && o.Namespace == t.Namespace
	})
	if len(in.Tracks) == len(c.Tracks) {
		return in.Tracks[i].ID, nil
	}
	return 0, fmt.Errorf("the init segment has %d tracks and does not say which one is %s", len(in.Tracks), t.Name)
}

// combine returns the init segment of the output.
func combine(inits []*cmaf.Init, choices []choice) (*cmaf.Init, error) {
	in := inits[0]
	if len(inits) > 1 {
		var err error
		if in, err = cmaf.Join(inits...); err != nil {
			return nil, &MediaError{fmt.Errorf("%w: they cannot be in one file; choose one with --tracks", err)}
		}
	}
	var ids []uint32
	for _, c := range choices {
		if !c.frames() {
			ids = append(ids, c.id)
		}
	}
	if len(in.Tracks) == len(ids) {
		return in, nil
	}
	return cmaf.ParseInit(in.Only(ids...))
}

// MediaError is the error of a broadcast that cannot be played.
type MediaError struct{ Err error }

func (e *MediaError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *MediaError) Unwrap() error { return e.Err }
