package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/clock"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
)

// arrivalInterval is how often to check whether the object that a publisher is asked for has come by subscription
// meanwhile.
const arrivalInterval = 20 * time.Millisecond

var (
	// errArrived ends a wait for a publisher.
	errArrived = errors.New("the object has come by subscription")
	// ErrNoSource is the refusal if there is no publisher to ask, or no time left to ask.
	ErrNoSource = &moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "nobody publishes the track"}
)

// piece is a part of a peer's range that a publisher brings. Its objects are sent to the peer and stored in the cache.
type piece struct {
	*Pull
	fetch *Fetch
	asked asked // source, too
	store *track.FetchWriter
	rest  moqt.Range // has not come yet, in ascending order
}

// newPiece asks one publisher after another for r until one accepts, except those that were asked before. The error is
// a *moqt.RequestError, or errArrived.
func newPiece(f *Fetch, r moqt.Range, before asked) (*piece, error) {
	failure := ErrNoSource
	for source := range f.hub.Sources(f.req.Context(), &f.budget) {
		if f.budget.next() <= 0 {
			break
		}
		if slices.Contains(before.sessions, source.Session) {
			continue
		}
		before.sessions = append(slices.Clip(before.sessions), source.Session)
		pull, err := ask(f, source, r)
		if err == nil {
			source.Accepted(f.data, pull.ok, pull.Covered)
			return &piece{Pull: pull, fetch: f, asked: before, rest: r, store: f.data.NewFetchWriter()}, nil
		}
		if errors.Is(err, errArrived) {
			return nil, err
		}
		if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
			failure = PassOn(refused)
		}
	}
	return nil, failure
}

// ask asks a publisher for a range, unless the first missing object comes by subscription meanwhile: the publisher may
// have sent it already, and some publishers do not answer FETCH.
func ask(f *Fetch, source Source, r moqt.Range) (*Pull, error) {
	ctx, arrived := context.WithCancelCause(f.req.Context())
	defer arrived(nil)
	go func() {
		for range clock.Every(arrivalInterval, ctx.Done()) {
			if f.knows(r.Start) {
				arrived(errArrived)
			}
		}
	}()
	pull, err := Ask(ctx, source, &f.budget, r, moqt.Parameters{GroupOrder: &f.out.order, HopPath: f.params.HopPath})
	if err != nil && errors.Is(context.Cause(ctx), errArrived) {
		err = errArrived
	}
	return pull, err
}

func (u *piece) close() {
	u.store.Close()
	u.Close()
}

// copy sends the objects of the publisher's response, and stores them. It returns false if the response ended too
// early, or was wrong: then rest is missing, and another publisher may have it. It returns the peer's errors as they
// are.
func (u *piece) copy() (done bool, err error) {
	err = u.Copy(u.fetch.req.Context(), u)
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](err); ok {
		u.source.Malformed(malformed)
	}
	switch _, ended := err.(sourceError); {
	case err == nil:
		return true, u.complete()
	case ended:
		return false, nil
	case errors.Is(err, errTruncated):
		return false, errTruncated
	}
	return false, err
}

// TakePayload implements Taker.
func (u *piece) TakePayload(p []byte) error {
	if err := u.store.Write(p); err != nil {
		return sourceError{err}
	}
	return u.fetch.out.payload(p)
}

// TakeItem implements Taker. It sends and stores an object's header, or records a marker.
func (u *piece) TakeItem(o *moqt.FetchObject) error {
	f := u.fetch
	if !u.rest.Contains(o.Location) {
		return sourceError{fmt.Errorf("object %s is not in the range of the FETCH", o.Location)}
	}
	before := u.rest
	u.advance(o.Location)
	switch o.Kind {
	case moqt.FetchKindUnknown, moqt.FetchKindTimedOut:
		if f.out.order == moqt.Ascending {
			return f.send(moqt.Range{Start: before.Start, End: o.Location}, u.asked)
		}
		return f.out.skip(track.Unknown, o.Location)
	case moqt.FetchKindNonExistent:
		if f.out.order == moqt.Ascending {
			f.data.AddAbsent(moqt.Range{Start: before.Start, End: o.Location})
		}
		return f.out.skip(track.Absent, o.Location)
	}
	if err := u.begin(o); err != nil {
		return sourceError{err}
	}
	if f.out.order == moqt.Ascending && before.Start.Less(o.Location) {
		f.data.AddAbsent(moqt.Range{Start: before.Start, End: previous(o.Location)})
	}
	return f.out.header(o)
}

// begin stores an object's header.
func (u *piece) begin(o *moqt.FetchObject) error {
	unranked := o.Priority == 0 && u.source.Session.Tolerates(session.FetchesWithoutPriority)
	if unranked {
		properties, _ := u.fetch.hub.Description()
		o.Priority = properties.DefaultPublisherPriority()
	}
	return u.store.Begin(o, unranked)
}

// advance records that the response has reached l. In descending order the missing objects are not one range, and rest
// stays as it is.
func (u *piece) advance(l moqt.Location) {
	if u.fetch.out.order == moqt.Ascending {
		u.rest.Start = l.Next()
	}
}

// previous returns the location before l, which must not be the first one.
func previous(l moqt.Location) moqt.Location {
	if l.Object > 0 {
		return moqt.Location{Group: l.Group, Object: l.Object - 1}
	}
	return moqt.Location{Group: l.Group - 1, Object: moqt.MaxLocation.Object}
}

// complete records that nothing follows the last object of a complete response, as far as the response reaches.
func (u *piece) complete() error {
	f := u.fetch
	if f.out.order == moqt.Descending {
		return f.out.skip(track.Absent, f.out.last(u.rest))
	}
	absent := u.rest.Intersect(moqt.Range{End: u.Covered})
	if !absent.Empty() {
		f.data.AddAbsent(absent)
		if err := f.out.skip(track.Absent, absent.End); err != nil {
			return err
		}
	}
	if u.Covered.Less(u.rest.End) {
		return f.send(u.rest.Intersect(moqt.Range{Start: u.Covered.Next(), End: u.rest.End}), u.asked)
	}
	return nil
}
