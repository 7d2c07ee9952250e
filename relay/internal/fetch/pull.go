package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"sluice/internal/unlucky"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/track"
	"sluice/transport"
)

const (
	// BufferSize is how much of a FETCH response is read at once, in bytes.
	BufferSize = 16 << 10
	// arrivalInterval is how often to check whether the object that a publisher is asked for has come by subscription
	// meanwhile.
	arrivalInterval = 20 * time.Millisecond
)

var (
	// errArrived ends a wait for a publisher.
	errArrived = errors.New("the object has come by subscription")
	// ErrNoSource is the refusal if there is no publisher to ask, or no time left to ask.
	ErrNoSource = &moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "nobody publishes the track"}
)

// pull is a FETCH of the relay at a publisher, for a part of a peer's range. Its objects are sent to the peer
// and stored in the cache.
type pull struct {
	fetch   *Fetch
	source  Source
	asked   asked // source, too
	request *session.Fetch
	done    func() // takes request back from source
	stream  transport.ReceiveStream
	Reader
	store   *track.FetchWriter
	rest    moqt.Range    // has not come yet, in ascending order
	covered moqt.Location // how far the response reaches, by FETCH_OK
}

// newPull asks one publisher after another for r until one accepts, except those that were asked before. The error is a
// *moqt.RequestError, or errArrived.
func newPull(f *Fetch, r moqt.Range, before asked) (*pull, error) {
	failure := ErrNoSource
	for source := range f.hub.Sources(f.req.Context(), &f.budget) {
		if f.budget.next() <= 0 {
			break
		}
		if slices.Contains(before.sessions, source.Session()) {
			continue
		}
		before.sessions = append(slices.Clip(before.sessions), source.Session())
		u := &pull{
			fetch: f, source: source, asked: before, rest: r,
			Reader: NewReader(source.Session().Version(), f.out.order),
		}
		err := u.open()
		if err == nil {
			return u, nil
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

// open sends the request, and waits until the publisher accepts it.
func (u *pull) open() error {
	f := u.fetch
	f.out.pause()
	ctx, cancel := context.WithTimeout(f.req.Context(), f.budget.next())
	defer cancel()
	ctx, arrived := context.WithCancelCause(ctx)
	defer arrived(nil)
	go u.awaitArrival(ctx, u.rest.Start, arrived)
	defer f.budget.spend(time.Now())
	request, err := u.source.Fetch(ctx, u.rest, moqt.Parameters{GroupOrder: &f.out.order, HopPath: f.params.HopPath})
	if err != nil {
		return cmp.Or(arrivalOf(ctx), err)
	}
	u.request, u.store, u.done = request, f.data.NewFetchWriter(), u.source.Begin(request)
	ok, err := request.Wait(ctx)
	if err == nil {
		u.stream, err = request.Stream(ctx)
	}
	if err != nil {
		u.close()
		return cmp.Or(arrivalOf(ctx), err)
	}
	u.covered = moqt.FetchRange(u.rest.Start, ok.End).End
	u.source.Accepted(f.data, ok, u.covered)
	return nil
}

// awaitArrival ends the wait for the publisher's response when the first missing object comes by subscription: the
// publisher may have sent it already, and some publishers do not answer FETCH.
func (u *pull) awaitArrival(ctx context.Context, first moqt.Location, arrived context.CancelCauseFunc) {
	tick := time.NewTicker(arrivalInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if u.fetch.knows(first) {
				arrived(errArrived)
				return
			}
		}
	}
}

// arrivalOf returns errArrived if the wait ended for that reason, else nil.
func arrivalOf(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errArrived) {
		return err
	}
	return nil
}

func (u *pull) close() {
	u.done()
	u.store.Close()
	u.request.Cancel(moqt.ResetCancelled)
}

// copy sends the objects of the publisher's response, and stores them. It returns false if the response ended too
// early; then rest is missing.
func (u *pull) copy() (done bool, err error) {
	buf := make([]byte, BufferSize)
	for {
		n, readErr := u.receive(buf)
		if err := u.Read(buf[:n], u); err != nil {
			return false, u.failed(err)
		}
		switch {
		case u.left > 0 && readErr != nil:
			return false, errTruncated // its header was sent
		case errors.Is(readErr, io.EOF):
			return true, u.complete()
		case readErr != nil:
			return false, nil
		}
	}
}

func (u *pull) receive(buf []byte) (int, error) {
	u.fetch.out.pause()
	defer u.fetch.budget.spend(time.Now())
	u.source.Payers().Await(u.fetch.req.Context(), charge.UploadRate)
	if err := u.stream.SetReadDeadline(time.Now().Add(u.fetch.budget.next())); err != nil {
		return 0, err
	}
	n, err := unlucky.Reader(u.stream).Read(buf)
	u.source.Payers().Count(charge.UploadRate, n)
	return n, err
}

// failed handles an error. After a publisher's error it returns nil, because another publisher may have the rest,
// unless an object was cut off. It returns the peer's errors as they are.
func (u *pull) failed(err error) error {
	wrong, ok := errors.AsType[SourceError](err)
	if !ok {
		return err
	}
	if violation, ok := errors.AsType[*moqt.ProtocolError](wrong.Err); ok {
		u.source.Session().Close(violation.Code, violation.Reason)
	}
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](wrong.Err); ok {
		u.source.Malformed(malformed)
	}
	if u.left > 0 {
		return errTruncated
	}
	return nil
}

// TakePayload implements Taker.
func (u *pull) TakePayload(p []byte) error {
	if err := u.store.Write(p); err != nil {
		return SourceError{err}
	}
	return u.fetch.out.payload(p)
}

// TakeItem implements Taker. It sends and stores an object's header, or records a marker.
func (u *pull) TakeItem(o *moqt.FetchObject) error {
	f := u.fetch
	if !u.rest.Contains(o.Location) {
		return SourceError{fmt.Errorf("object %s is not in the range of the FETCH", o.Location)}
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
		return SourceError{err}
	}
	if f.out.order == moqt.Ascending && before.Start.Less(o.Location) {
		f.data.AddAbsent(moqt.Range{Start: before.Start, End: previous(o.Location)})
	}
	return f.out.header(o)
}

// begin stores an object's header.
func (u *pull) begin(o *moqt.FetchObject) error {
	if o.Priority != 0 || !u.source.Session().Tolerates(session.FetchesWithoutPriority) {
		return u.store.Begin(o)
	}
	return u.store.BeginUnranked(o, u.fetch.hub.Properties().DefaultPublisherPriority())
}

// advance records that the response has reached l. In descending order the missing objects are not one range, and rest
// stays as it is.
func (u *pull) advance(l moqt.Location) {
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
func (u *pull) complete() error {
	f := u.fetch
	if f.out.order == moqt.Descending {
		return f.out.skip(track.Absent, f.out.last(u.rest))
	}
	absent := u.rest.Intersect(moqt.Range{End: u.covered})
	if !absent.Empty() {
		f.data.AddAbsent(absent)
		if err := f.out.skip(track.Absent, absent.End); err != nil {
			return err
		}
	}
	if u.covered.Less(u.rest.End) {
		return f.send(u.rest.Intersect(moqt.Range{Start: u.covered.Next(), End: u.rest.End}), u.asked)
	}
	return nil
}
