package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/internal/unlucky"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
	"sluice/transport"
)

const (
	// fetchBuffer is how much of a FETCH response is read at once, in bytes.
	fetchBuffer = 16 << 10
	// arrivalInterval is how often to check whether the object that a publisher is asked for has come by subscription
	// meanwhile.
	arrivalInterval = 20 * time.Millisecond
)

var (
	// errArrived ends a wait for a publisher.
	errArrived = errors.New("the object has come by subscription")
	// errNoSource is the refusal if there is no publisher to ask, or no time left to ask.
	errNoSource = &moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "nobody publishes the track"}
)

// waitBudget is how long a FETCH may wait for publishers, upstream relays that connect, or objects that come by
// subscription: FILL_TIMEOUT limits all waits together (draft §10.2.5), the relay's own limit each wait for a
// publisher, all those for upstream relays, and all those for objects.
type waitBudget struct {
	each    time.Duration
	limited bool          // the peer sent FILL_TIMEOUT:
	left    time.Duration // the part of it that is left
	arrival time.Duration // was spent on objects that may come by subscription
	connect time.Time     // until when upstream relays may connect; zero before the first wait
}

// next returns how long the next wait may take.
func (b *waitBudget) next() time.Duration {
	if b.limited {
		return min(b.left, b.each)
	}
	return b.each
}

// isUsedUp reports whether the peer limited the time, and nothing of it is left.
func (b *waitBudget) isUsedUp() bool { return b.limited && b.left <= 0 }

// spend subtracts the time since start from the budget.
func (b *waitBudget) spend(start time.Time) { b.left -= time.Since(start) }

// nextForArrival returns how long the next wait for an object may take.
func (b *waitBudget) nextForArrival() time.Duration { return min(b.next(), b.each-b.arrival) }

// spendOnArrival subtracts the time since start, in which an object was awaited.
func (b *waitBudget) spendOnArrival(start time.Time) {
	b.spend(start)
	b.arrival += time.Since(start)
}

// await waits for a change that an upstream relay may cause when it has connected. It returns false if the time is up,
// or the context done.
func (b *waitBudget) await(ctx context.Context, change <-chan struct{}) bool {
	defer b.spend(time.Now())
	if b.connect.IsZero() {
		b.connect = time.Now().Add(b.each)
	}
	wait := min(b.next(), time.Until(b.connect))
	if wait <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-change:
		return true
	case <-ctx.Done():
		return false
	}
}

// upstreamFetch is a FETCH of the relay at a publisher, for a part of a peer's range. Its objects are sent to the peer
// and stored in the cache.
type upstreamFetch struct {
	fetch   *fetch
	peer    *peer // the publisher
	request *session.Fetch
	stream  transport.ReceiveStream
	responseReader
	store   *track.FetchWriter
	rest    moqt.Range    // has not come yet, in ascending order
	covered moqt.Location // how far the response reaches, by FETCH_OK
}

// newUpstreamFetch asks one publisher after another for r until one accepts. The error is a *moqt.RequestError, or
// errArrived.
func newUpstreamFetch(f *fetch, r moqt.Range) (*upstreamFetch, error) {
	failure := errNoSource
	asker := asker{f.peer, f.params.HopPath}
	for p := range f.hub.choice.sources(f.req.Context(), &f.budget, asker) {
		if f.budget.next() <= 0 {
			break
		}
		u := &upstreamFetch{fetch: f, peer: p, rest: r}
		u.parser = moqt.NewFetchParser(p.session.Version(), f.out.order, 0)
		err := u.open()
		if err == nil {
			return u, nil
		}
		if errors.Is(err, errArrived) {
			return nil, err
		}
		if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
			failure = passOn(refused)
		}
	}
	return nil, failure
}

// open sends the request, and waits until the publisher accepts it.
func (u *upstreamFetch) open() error {
	f := u.fetch
	f.out.pause()
	ctx, cancel := context.WithTimeout(f.req.Context(), f.budget.next())
	defer cancel()
	ctx, arrived := context.WithCancelCause(ctx)
	defer arrived(nil)
	go u.awaitArrival(ctx, u.rest.Start, arrived)
	defer f.budget.spend(time.Now())
	request, err := u.peer.session.Fetch(ctx, moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: u.peer.nameOf(f.hub), Start: u.rest.Start, End: u.rest.FetchEnd(),
		Parameters: moqt.Parameters{GroupOrder: &f.out.order, HopPath: f.params.HopPath},
	})
	if err != nil {
		return cmp.Or(arrivalOf(ctx), err)
	}
	u.request, u.store = request, f.data.NewFetchWriter()
	f.hub.mu.Lock()
	f.hub.fetching[u] = struct{}{}
	f.hub.mu.Unlock()
	ok, err := request.Wait(ctx)
	if err == nil {
		u.stream, err = request.Stream(ctx)
	}
	if err != nil {
		u.close()
		return cmp.Or(arrivalOf(ctx), err)
	}
	u.covered = moqt.FetchRange(u.rest.Start, ok.End).End
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.hub.description.learnFetched(f.data, ok, u.covered)
	f.hub.bringsLocked(u.peer)
	return nil
}

// awaitArrival ends the wait for the publisher's response when the first missing object comes by subscription: the
// publisher may have sent it already, and some publishers do not answer FETCH.
func (u *upstreamFetch) awaitArrival(ctx context.Context, first moqt.Location, arrived context.CancelCauseFunc) {
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

func (u *upstreamFetch) close() {
	h := u.fetch.hub
	h.mu.Lock()
	delete(h.fetching, u)
	h.mu.Unlock()
	u.store.Close()
	u.request.Cancel(moqt.ResetCancelled)
}

// copy sends the objects of the publisher's response, and stores them. It returns false if the response ended too
// early; then rest is missing.
func (u *upstreamFetch) copy() (done bool, err error) {
	buf := make([]byte, fetchBuffer)
	for {
		n, readErr := u.read(buf)
		if err := u.responseReader.read(buf[:n], u); err != nil {
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

func (u *upstreamFetch) read(buf []byte) (int, error) {
	u.fetch.out.pause()
	defer u.fetch.budget.spend(time.Now())
	u.peer.payers().AwaitUpload(u.fetch.req.Context())
	if err := u.stream.SetReadDeadline(time.Now().Add(u.fetch.budget.next())); err != nil {
		return 0, err
	}
	n, err := unlucky.Reader(u.stream).Read(buf)
	u.peer.payers().Upload(n)
	return n, err
}

// failed handles an error. After a publisher's error it returns nil, because another publisher may have the rest,
// unless an object was cut off. It returns the peer's errors as they are.
func (u *upstreamFetch) failed(err error) error {
	source, ok := errors.AsType[sourceError](err)
	if !ok {
		return err
	}
	if violation, ok := errors.AsType[*moqt.ProtocolError](source.error); ok {
		u.peer.session.Close(violation.Code, violation.Reason)
	}
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](source.error); ok {
		u.fetch.hub.malformedFetch(u.peer, malformed)
	}
	if u.left > 0 {
		return errTruncated
	}
	return nil
}

// takePayload implements responseTaker.
func (u *upstreamFetch) takePayload(p []byte) error {
	if err := u.store.Write(p); err != nil {
		return sourceError{err}
	}
	return u.fetch.out.payload(p)
}

// takeItem implements responseTaker. It sends and stores an object's header, or records a marker.
func (u *upstreamFetch) takeItem(o *moqt.FetchObject) error {
	f := u.fetch
	if !u.rest.Contains(o.Location) {
		return sourceError{fmt.Errorf("object %s is not in the range of the FETCH", o.Location)}
	}
	before := u.rest
	u.advance(o.Location)
	switch o.Kind {
	case moqt.FetchKindUnknown, moqt.FetchKindTimedOut:
		if f.out.order == moqt.Ascending {
			return f.send(moqt.Range{Start: before.Start, End: o.Location}, true)
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
func (u *upstreamFetch) begin(o *moqt.FetchObject) error {
	if o.Priority != 0 || !u.peer.session.Tolerates(session.FetchesWithoutPriority) {
		return u.store.Begin(o)
	}
	h := u.fetch.hub
	h.mu.Lock()
	priority := h.description.properties.DefaultPublisherPriority()
	h.mu.Unlock()
	return u.store.BeginUnranked(o, priority)
}

// advance records that the response has reached l. In descending order the missing objects are not one range, and rest
// stays as it is.
func (u *upstreamFetch) advance(l moqt.Location) {
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
func (u *upstreamFetch) complete() error {
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
		return f.send(u.rest.Intersect(moqt.Range{Start: u.covered.Next(), End: u.rest.End}), true)
	}
	return nil
}
