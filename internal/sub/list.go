package sub

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"unicode"
	"unicode/utf8"

	"sluice/internal/client"
	"sluice/moqt"
	"sluice/moqt/session"
)

// lister writes a line for each object of some tracks, in the order of arrival.
type lister struct {
	cfg *PlayerConfig

	mu    sync.Mutex // guards the fields below, and Config.Out
	count uint64
	err   error
	done  chan struct{} // closed after the last line
}

// listing uses one session to list.
type listing struct {
	session.Unsupported
	*lister
	link *client.Link
}

// Serve implements [client.Endpoint].
func (e *listing) Serve(ctx context.Context) error {
	var tracks sync.WaitGroup
	errs := make([]error, len(e.cfg.Tracks))
	for i, name := range e.cfg.Tracks {
		tracks.Go(func() { errs[i] = e.list(ctx, name) })
	}
	e.link.Established()
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

// list writes the objects of a track from its current group on, until its end.
func (e *listing) list(ctx context.Context, name string) error {
	full := moqt.FullTrackName{Namespace: e.cfg.Namespace, Name: name}
	s, largest, err := subscribe(ctx, e.cfg, e.link, full, e.cfg.Wait, &plainReceiver{
		func(i item) { e.write(name, i) },
	})
	if err != nil {
		return err
	}
	defer s.Cancel(moqt.ResetCancelled)
	if largest != nil {
		m := moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningStart: e.cfg.Join}
		if err := fetch(ctx, e.cfg, s, m, *largest, func(i item) { e.write(name, i) }); err != nil {
			e.cfg.Client.Logger.Warn("cannot fetch the current group", "track", name, "error", err)
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

// write writes the line of an object: its payload if that is short text, else a hash.
func (e *lister) write(track string, i item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || e.cfg.Objects > 0 && e.count >= e.cfg.Objects {
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
