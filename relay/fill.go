package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
	"sluice/transport"
)

const (
	// fillBuffer is how much of a FETCH response is read at once, in bytes.
	fillBuffer = 16 << 10
	// maxFills is how many FETCHes of the relay a FETCH may cause: one for each hole in the cache.
	maxFills = 64
	// arrivalInterval is how often to look whether what a publisher is asked for has come by subscription meanwhile.
	arrivalInterval = 20 * time.Millisecond
)

// errArrived says that a publisher need not be waited for any longer.
var errArrived = errors.New("the object has come by subscription")

// errNoSource says that there is no publisher to fetch from, or no time left to do so.
var errNoSource = &moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "nobody publishes the track"}

// upstreamFetch is a FETCH of the relay, that was accepted, for a part of what a peer wants.
type upstreamFetch struct {
	peer    *peer
	fetch   *session.Fetch
	stream  transport.ReceiveStream
	parser  *moqt.FetchParser
	store   *track.Fill
	order   moqt.GroupOrder
	rest    moqt.Range    // what has not come yet, in ascending order
	covered moqt.Location // how far the response reaches, by FETCH_OK
	left    uint64        // payload bytes to come of the current object
}

func (u *upstreamFetch) close() {
	u.store.Close()
	u.fetch.Cancel(moqt.ResetCancelled)
}

// sources are the peers to fetch from: those with a subscription, then those that announced the namespace.
func (h *hub) sources() []*peer {
	announced := h.relay.publishersOf(h.place)
	h.mu.Lock()
	defer h.mu.Unlock()
	var peers []*peer
	for p, u := range h.up {
		if u.established {
			peers = append(peers, p)
		}
	}
	for _, p := range announced {
		if u := h.up[p]; !p.isBarred(h) && (u == nil || !u.established) {
			peers = append(peers, p)
		}
	}
	return peers
}

// fetchUpstream asks one publisher after the other for r until one accepts. The error is a *moqt.RequestError, or errArrived.
func (f *fetch) fetchUpstream(r moqt.Range) (*upstreamFetch, error) {
	failure := errNoSource
	for _, p := range f.hub.sources() {
		if f.patience() <= 0 {
			break
		}
		u, err := f.fetchFrom(p, r)
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

func (f *fetch) fetchFrom(p *peer, r moqt.Range) (*upstreamFetch, error) {
	f.peer.turns.give(f)
	ctx, cancel := context.WithTimeout(f.req.Context(), f.patience())
	defer cancel()
	ctx, arrived := context.WithCancelCause(ctx)
	defer arrived(nil)
	go f.awaitArrival(ctx, r.Start, arrived)
	defer f.waited(time.Now())
	req, err := p.session.Fetch(ctx, moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: f.hub.name, Start: r.Start, End: r.FetchEnd(),
		Parameters: moqt.Parameters{GroupOrder: &f.order},
	})
	if err != nil {
		return nil, cmp.Or(arrivalOf(ctx), err)
	}
	u := &upstreamFetch{
		peer: p, fetch: req, store: f.data.NewFill(), parser: moqt.NewFetchParser(f.order, 0), order: f.order, rest: r,
	}
	ok, err := req.Wait(ctx)
	if err == nil {
		u.stream, err = req.Stream(ctx)
	}
	if err != nil {
		u.close()
		return nil, cmp.Or(arrivalOf(ctx), err)
	}
	u.covered = moqt.FetchRange(r.Start, ok.End).End
	f.hub.learn(f.data, ok, u.covered)
	return u, nil
}

// awaitArrival ends a wait for a publisher's response when the first object of what is missing comes by subscription: the publisher may have
// sent it already, and there are some that do not answer FETCH.
func (f *fetch) awaitArrival(ctx context.Context, first moqt.Location, arrived context.CancelCauseFunc) {
	tick := time.NewTicker(arrivalInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if f.holds(first) {
				arrived(errArrived)
				return
			}
		}
	}
}

func (f *fetch) holds(l moqt.Location) bool {
	s := f.data.At(moqt.Range{Start: l, End: l}, f.fresh, nil)
	if s.Reader != nil {
		s.Reader.Close()
	}
	return s.Existence == track.Present
}

// arrivalOf is errArrived if that is why a wait ended.
func arrivalOf(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errArrived) {
		return err
	}
	return nil
}

// learn takes account of a FETCH_OK.
func (h *hub) learn(data *track.Track, ok *moqt.FetchOK, end moqt.Location) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.describe(nil, ok.Properties)
	if h.extent == nil || h.extent.Less(end) {
		h.extent = &end
	}
	if ok.EndOfTrack {
		data.AddEnd(end.Next())
	}
}

// fill sends r, of which the cache knows nothing, from upstream. What cannot be had is marked as unknown.
func (f *fetch) fill(r moqt.Range) error {
	if f.fills++; f.fills > maxFills {
		return f.skip(track.Unknown, f.lastOf(r))
	}
	u, err := f.fetchUpstream(r)
	if errors.Is(err, errArrived) {
		return f.send(r)
	}
	if err != nil {
		return f.skip(track.Unknown, f.lastOf(r))
	}
	defer u.close()
	if done, err := f.relay(u); done || err != nil {
		return err
	}
	return f.skip(track.Unknown, f.lastOf(u.rest))
}

// relay sends what a publisher sends, and stores it. It reports false if the response ended too early; then u.rest is missing.
func (f *fetch) relay(u *upstreamFetch) (done bool, err error) {
	buf := make([]byte, fillBuffer)
	for {
		n, readErr := f.read(u, buf)
		if err := f.relayBytes(u, buf[:n]); err != nil {
			return false, f.relayFailed(u, err)
		}
		switch {
		case u.left > 0 && readErr != nil:
			return false, errTruncated // its header was sent
		case errors.Is(readErr, io.EOF):
			return true, f.complete(u)
		case readErr != nil:
			return false, nil
		}
	}
}

// patience is how long to wait for a publisher now: FILL_TIMEOUT is for all waiting together (draft §10.2.5), the relay's own limit is for
// each time.
func (f *fetch) patience() time.Duration {
	if f.limited {
		return min(f.budget, f.peer.relay.cfg.FillTimeout)
	}
	return f.peer.relay.cfg.FillTimeout
}

// waited takes the time since start from the budget.
func (f *fetch) waited(start time.Time) { f.budget -= time.Since(start) }

func (f *fetch) read(u *upstreamFetch, buf []byte) (int, error) {
	f.peer.turns.give(f)
	defer f.waited(time.Now())
	if err := u.stream.SetReadDeadline(time.Now().Add(f.patience())); err != nil {
		return 0, err
	}
	return u.stream.Read(buf)
}

// sourceError is what was wrong with a publisher's response.
type sourceError struct{ error }

// relayFailed tells errors of the publisher, after which another one may have the rest, from those of the peer.
func (f *fetch) relayFailed(u *upstreamFetch, err error) error {
	source, ok := errors.AsType[sourceError](err)
	if !ok {
		return err
	}
	if violation, ok := errors.AsType[*moqt.ProtocolError](source.error); ok {
		u.peer.session.Close(violation.Code, violation.Reason)
	}
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](source.error); ok {
		f.hub.malformedAt(u.peer, malformed)
	}
	if u.left > 0 {
		return errTruncated
	}
	return nil
}

// relayBytes sends the objects in b.
func (f *fetch) relayBytes(u *upstreamFetch, b []byte) error {
	for len(b) > 0 {
		if u.left > 0 {
			n := int(min(u.left, uint64(len(b))))
			if _, _, err := u.parser.Next(b[:n]); err != nil && !errors.Is(err, moqt.ErrIncomplete) {
				return sourceError{err}
			}
			if err := f.relayPayload(u, b[:n]); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		item, n, err := u.parser.Next(b)
		if errors.Is(err, moqt.ErrIncomplete) {
			return nil
		}
		if err != nil {
			return sourceError{err}
		}
		b = b[n:]
		if err := f.relayItem(u, &item.FetchObject); err != nil {
			return err
		}
	}
	return nil
}

func (f *fetch) relayPayload(u *upstreamFetch, p []byte) error {
	u.left -= uint64(len(p))
	if err := u.store.Write(p); err != nil {
		return sourceError{err}
	}
	return f.write(p)
}

// relayItem sends an object's header, or takes note of a marker.
func (f *fetch) relayItem(u *upstreamFetch, o *moqt.FetchObject) error {
	if !u.rest.Contains(o.Location) {
		return sourceError{fmt.Errorf("object %s is not in the range of the FETCH", o.Location)}
	}
	before := u.rest
	u.advance(o.Location)
	switch o.Kind {
	case moqt.FetchKindUnknown:
		return f.skip(track.Unknown, o.Location)
	case moqt.FetchKindNonExistent:
		if f.order == moqt.Ascending {
			f.data.AddAbsent(moqt.Range{Start: before.Start, End: o.Location})
		}
		return f.skip(track.Absent, o.Location)
	}
	if err := u.store.Begin(o); err != nil {
		return sourceError{err}
	}
	if f.order == moqt.Ascending && before.Start.Less(o.Location) {
		f.data.AddAbsent(moqt.Range{Start: before.Start, End: previous(o.Location)})
	}
	u.left = o.PayloadLength
	return f.sendHeader(o)
}

// advance takes note that the response has reached l. In descending order what is missing is not one range, and all is kept.
func (u *upstreamFetch) advance(l moqt.Location) {
	if u.order == moqt.Ascending {
		u.rest.Start = l.Next()
	}
}

// previous is the location before l, which is not the first one.
func previous(l moqt.Location) moqt.Location {
	if l.Object > 0 {
		return moqt.Location{Group: l.Group, Object: l.Object - 1}
	}
	return moqt.Location{Group: l.Group - 1, Object: moqt.MaxLocation.Object}
}

// complete takes note of what follows the last object of a complete response: nothing, as far as the response was to reach.
func (f *fetch) complete(u *upstreamFetch) error {
	if f.order == moqt.Descending {
		return f.skip(track.Absent, f.lastOf(u.rest))
	}
	absent := u.rest.Intersect(moqt.Range{End: u.covered})
	if !absent.Empty() {
		f.data.AddAbsent(absent)
		if err := f.skip(track.Absent, absent.End); err != nil {
			return err
		}
	}
	if u.covered.Less(u.rest.End) {
		return f.skip(track.Unknown, u.rest.End)
	}
	return nil
}
