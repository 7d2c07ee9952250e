package sub

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"unicode"
	"unicode/utf8"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/client"
)

// lister writes a line for each object of some tracks, in the order of arrival.
type lister struct {
	cfg *PlayerConfig
	ctx context.Context // of Run

	mu     sync.Mutex // guards the fields below, and Config.Out
	tracks map[string]*listed
	count  uint64
	err    error
	done   chan struct{} // closed after the last line
}

// listing uses one session to list.
type listing struct {
	session.Unsupported
	*lister
	link *client.Link
}

// Serve implements [client.Endpoint].
func (e *listing) Serve(ctx context.Context) error {
	ctx, cancel := whileBoth(ctx, e.ctx)
	defer cancel(nil)
	var tracks, pending sync.WaitGroup
	errs := make([]error, len(e.cfg.Tracks))
	for i, name := range e.cfg.Tracks {
		pending.Add(1)
		tracks.Go(func() { errs[i] = e.list(ctx, name, sync.OnceFunc(pending.Done)) })
	}
	go func() { // until then, the session before this one brings what comes
		pending.Wait()
		e.link.Established()
	}()
	tracks.Wait()
	select {
	case <-e.done:
		if e.err != nil {
			return &OutputError{e.err}
		}
		return nil
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// list writes the objects of a track from its current group on, until its end. It calls answered when the relay has
// answered.
func (e *listing) list(ctx context.Context, name string, answered func()) error {
	defer answered()
	full := moqt.FullTrackName{Namespace: e.cfg.Namespace, Name: name}
	before := e.latest(name)
	s, largest, err := subscribe(ctx, e.cfg, e.link, request(full, fromNow), e.cfg.Wait, &plainReceiver{
		e.cfg, func(i item) { e.write(name, i) },
	})
	if err != nil {
		return err
	}
	defer s.Cancel(moqt.ResetCancelled)
	answered()
	if largest != nil {
		m := moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningStart: e.cfg.Join}
		if before != nil { // the session before this one may have ended within two groups
			m.JoiningStart = max(m.JoiningStart, 1+largest.Group-min(largest.Group, *before))
		}
		if err := fetch(ctx, e.cfg, s, m, *largest, func(i item) { e.write(name, i) }); err != nil {
			e.cfg.Client.Logger.Warn("cannot fetch the current group", "track", name, "err", err)
		}
	}
	select {
	case <-s.Context().Done():
		return ended(context.Cause(s.Context()))
	case <-e.done:
		return nil
	case <-ctx.Done():
		return nil
	}
}

// ended returns nil for the regular end of a subscription.
func ended(err error) error {
	if done, ok := errors.AsType[*session.DoneError](err); ok &&
		(done.Status == moqt.DoneTrackEnded || done.Status == moqt.DoneSubscriptionEnded) {
		return nil
	}
	return err
}

// latest returns the latest group of a track that is listed, or nil.
func (e *lister) latest(track string) *uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.tracks[track]; t != nil {
		return new(t.last)
	}
	return nil
}

// write writes the line of an object: its payload if that is short text, else a hash.
func (e *listing) write(track string, i item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tracks[track]
	if t == nil {
		t = &listed{by: make(map[moqt.Location]*client.Link)}
		e.tracks[track] = t
	}
	if e.err != nil || e.cfg.Objects > 0 && e.count >= e.cfg.Objects || !t.isNew(i.location, e.link) {
		return
	}
	e.count++
	content := fmt.Sprintf("sha256=%x", sha256.Sum256(i.payload))
	if printable(i.payload) {
		content = fmt.Sprintf("%q", i.payload)
	}
	_, e.err = fmt.Fprintf(e.cfg.Out, "%s group=%d object=%d subgroup=%d priority=%d bytes=%d %s\n",
		track, i.location.Group, i.location.Object, i.subgroup, i.priority, len(i.payload), content)
	if e.err != nil || e.cfg.Objects > 0 && e.count >= e.cfg.Objects {
		close(e.done)
	}
}

// printable reports whether b is text that is short enough for a line.
func printable(b []byte) bool {
	if len(b) > 64 || !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// listed are the latest objects of a track that were listed, by the session that has brought them. What two sessions
// bring, while one replaces the other, is listed once; what one brings twice is shown.
type listed struct {
	by   map[moqt.Location]*client.Link
	last uint64 // group
}

// maxListed is how many objects are remembered.
const maxListed = 1 << 16

// isNew reports whether no other session has brought an object.
func (l *listed) isNew(at moqt.Location, by *client.Link) bool {
	if other := l.by[at]; other != nil {
		return other == by
	}
	l.last = max(l.last, at.Group)
	for kept := uint64(maxListed / 2); len(l.by) >= maxListed; kept /= 2 {
		old := func(o moqt.Location, _ *client.Link) bool { return o.Group+kept <= l.last }
		maps.DeleteFunc(l.by, old)
	}
	l.by[at] = by
	return true
}
