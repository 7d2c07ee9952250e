package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/track"
	"sluice/transport"
)

const (
	// maxFills is how many FETCHes of the relay a FETCH may cause: one for each hole in the cache.
	maxFills = 64
	// ArrivalPause is how long a FETCH waits for an object that may come by subscription while nothing comes. It is
	// longer than the pauses of most media, and a subscriber that does not want to wait can say so (FILL_TIMEOUT).
	ArrivalPause = 2 * time.Second
)

// Request is what a Fetch answers: a FETCH, or a fill that a subscription asks for.
type Request interface {
	Context() context.Context
	// OK accepts the request.
	OK(moqt.FetchOK) error
	OpenStream(context.Context) (transport.SendStream, error)
	// Done ends the request, Reject refuses it. Reject fails if the request was accepted before.
	Done() error
	Reject(*moqt.RequestError) error
	Updates() <-chan *session.Update
}

// Fetch is a FETCH of a peer, or a fill. It is answered from the cache and, where the cache has nothing, from
// publishers (draft §10.12.3).
type Fetch struct {
	hub    Hub
	cfg    *Config
	req    Request
	params *moqt.Parameters // of the request
	data   *track.Track
	wanted moqt.Range
	fresh  time.Time     // objects received before it must not be served
	grown  chan struct{} // wakes await
	mu     sync.Mutex
	out    response
	budget Budget
	fills  int // FETCHes to publishers so far
}

// Config has the limits of a relay.
type Config struct {
	Fill    time.Duration               // how long a publisher may take to answer, and to bring more
	Stall   time.Duration               // how long a peer may take none of its response
	Refused func(moqt.RequestErrorCode) // is called when a request is refused
}

// Client is the peer that asks.
type Client struct {
	Version moqt.Version
	Payers  charge.Payers
	Turns   *Turns
}

// New returns what answers a request for a range of data, with its parameters.
func New(
	cfg *Config, h Hub, data *track.Track, by Client, req Request, params *moqt.Parameters, wanted moqt.Range,
) *Fetch {
	f := &Fetch{
		hub:    h,
		cfg:    cfg,
		req:    req,
		params: params,
		data:   data,
		wanted: wanted,
		grown:  make(chan struct{}, 1),
		out:    newResponse(by, req, params, cfg.Stall),
		budget: NewBudget(cfg.Fill, params),
	}
	f.fresh = f.data.Fresh()
	f.out.late, f.budget.idle = f.budget.isUsedUp, f.out.pause
	return f
}

// Serve serves the request until it ends, and reports whether the response is complete.
func (f *Fetch) Serve() (complete bool) {
	defer f.hub.Begin(f)()
	if err := f.respond(); err != nil {
		f.fail(err)
		return false
	}
	return true
}

// Keep accepts changes of the priority until the request ends.
func (f *Fetch) Keep() {
	for {
		select {
		case <-f.req.Context().Done():
			return
		case u := <-f.req.Updates():
			if u.OK(moqt.Parameters{}) == nil && u.Parameters.SubscriberPriority != nil { // else the request is over
				f.out.turns.setPriority(&f.out, *u.Parameters.SubscriberPriority)
			}
		}
	}
}

// respond answers the request and sends the objects.
func (f *Fetch) respond() error {
	if err := f.resolve(); err != nil {
		return err
	}
	whole, err := f.learnExtent()
	if err != nil {
		return err
	}
	if whole != nil {
		defer whole.close()
	}
	if err := f.accept(); err != nil {
		return err
	}
	defer f.out.pause()
	if err := f.sendAll(whole); err != nil {
		return err
	}
	if err := f.out.stream.Close(); err != nil {
		return err
	}
	return f.req.Done()
}

// resolve turns a range that is relative to the Largest Object into one that is not.
func (f *Fetch) resolve() error {
	req, ok := f.req.(*session.IncomingFetch)
	if !ok || !req.IsRelative() {
		return nil
	}
	if refused := f.hub.Learn(f.req.Context()); refused != nil {
		return refused
	}
	largest := f.data.Largest()
	if largest == nil {
		return &moqt.RequestError{Code: moqt.RequestInvalidRange, Reason: "there are no objects yet"}
	}
	if f.wanted = req.RangeFrom(*largest); f.wanted.Empty() {
		return &moqt.RequestError{Code: moqt.RequestInvalidRange, Reason: "the range starts after the largest object"}
	}
	return nil
}

// learnExtent finds out how far the track reaches. If that takes a FETCH of the whole range, it returns that FETCH.
func (f *Fetch) learnExtent() (*piece, error) {
	if f.hub.Covers(f.wanted.End) {
		return nil, nil
	}
	u, err := newPiece(f, f.wanted, asked{})
	if errors.Is(err, errArrived) || isUnserved(err) && f.data.Largest() != nil {
		return nil, nil // the cached objects are better than nothing
	}
	return u, err
}

// isUnserved reports whether there is no publisher that serves FETCH.
func isUnserved(err error) bool {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	return ok && (refused == ErrNoSource || refused.Code == moqt.RequestNotSupported)
}

// accept sends FETCH_OK, and opens the stream.
func (f *Fetch) accept() error {
	// The end of the range may be on its way: a peer may know how far the track is.
	f.awaitWhile(func() bool { return f.hub.MayGrow() && !f.reaches(f.wanted.End) })
	properties, extent := f.hub.Description()
	if refused := f.clamp(extent); refused != nil {
		return refused
	}
	limit := f.data.Limit()
	err := f.req.OK(moqt.FetchOK{
		EndOfTrack: limit != nil && !f.wanted.End.Next().Less(*limit),
		End:        f.wanted.FetchEnd(),
		Properties: properties,
	})
	if err != nil {
		return err
	}
	stream, err := f.req.OpenStream(f.req.Context())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.stream = stream
	return err
}

// clamp ends the range at the Largest Object (draft §10.12.3, §10.13), or where FETCH responses have reached.
func (f *Fetch) clamp(extent *moqt.Location) *moqt.RequestError {
	end := f.data.Largest()
	if extent != nil && (end == nil || end.Less(*extent)) {
		end = extent
	}
	if end == nil || end.Less(f.wanted.Start) {
		return &moqt.RequestError{Code: moqt.RequestInvalidRange, Reason: "the range starts after the largest object"}
	}
	if end.Less(f.wanted.End) {
		f.wanted.End = *end
	}
	return nil
}

// sendAll sends the objects of the range. whole, unless nil, brings all of them.
func (f *Fetch) sendAll(whole *piece) error {
	var err error
	if whole != nil {
		err = f.sendWhole(whole)
	} else {
		err = f.send(f.wanted, asked{})
	}
	if err != nil {
		return err
	}
	return f.out.endGap()
}

// sendWhole sends the objects that a publisher brings of the whole range. Objects that are missing at its end come from
// elsewhere, if the order allows that.
func (f *Fetch) sendWhole(whole *piece) error {
	whole.rest = whole.rest.Intersect(f.wanted)
	if done, err := whole.copy(); done || err != nil {
		return err
	}
	if f.out.order == moqt.Descending {
		return f.out.skip(track.Unknown, f.out.last(whole.rest))
	}
	return f.send(whole.rest, asked{})
}

// asked are the publishers that were asked for a range.
type asked struct {
	sessions []*session.Session
	all      bool // there are no others
}

// send sends r from the cache. It asks publishers for the objects that the cache does not have, one after the other. If
// all were asked before, it waits for what may come by subscription, and marks the rest as unknown.
func (f *Fetch) send(r moqt.Range, before asked) error {
	if f.out.order == moqt.Ascending {
		return f.sendAscending(r, before)
	}
	return f.sendDescending(r, before)
}

func (f *Fetch) sendAscending(r moqt.Range, before asked) error {
	for !r.Empty() {
		if before.all {
			f.awaitArrival(r.Start)
		}
		s := f.data.At(r, f.fresh, f)
		if err := f.sendStretch(s, before); err != nil {
			return err
		}
		if s.Range.End == moqt.MaxLocation {
			return nil
		}
		r.Start = s.Range.End.Next()
	}
	return nil
}

func (f *Fetch) sendDescending(r moqt.Range, before asked) error {
	for _, run := range slices.Backward(f.data.Groups(r.Start.Group, r.End.Group)) {
		part := r.Intersect(moqt.Range{
			Start: moqt.Location{Group: run.First},
			End:   moqt.Location{Group: run.Last, Object: moqt.MaxLocation.Object},
		})
		var err error
		switch run.Existence {
		case track.Present:
			err = f.sendAscending(part, before)
		case track.Absent:
			err = f.out.skip(track.Absent, f.out.last(part))
		default:
			err = f.sendMissing(part, before)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Fetch) sendStretch(s track.Stretch, before asked) error {
	switch {
	case s.Existence == track.Absent:
		return f.out.skip(track.Absent, s.Range.End)
	case s.Existence == track.Unknown:
		return f.sendMissing(s.Range, before)
	case s.Datagram != nil:
		return f.sendDatagram(s.Datagram)
	}
	defer s.Reader.Close()
	return f.sendObject(s)
}

// sendMissing sends r, which the cache does not have.
func (f *Fetch) sendMissing(r moqt.Range, before asked) error {
	if before.all {
		return f.out.skip(track.Unknown, f.out.last(r))
	}
	return f.fill(r, before)
}

func (f *Fetch) sendDatagram(d *track.Datagram) error {
	err := f.out.header(&moqt.FetchObject{
		Location: moqt.Location{Group: d.Group, Object: d.ID}, Datagram: true, Priority: d.Priority,
		Properties: d.Properties, PayloadLength: uint64(len(d.Payload)),
	})
	if err != nil {
		return err
	}
	return f.out.payload(d.Payload)
}

// sendObject sends an object from its log, as it arrives.
func (f *Fetch) sendObject(s track.Stretch) error {
	o, log := s.Object, s.Segment.Log
	for log.End() < o.PayloadStart {
		if err := f.await(log, o); err != nil {
			return err
		}
	}
	properties := make(moqt.Properties, o.PropertiesLen)
	s.Reader.ReadAt(properties, o.PropertiesStart)
	err := f.out.header(&moqt.FetchObject{
		Location:   moqt.Location{Group: s.Segment.Group, Object: o.ID},
		SubgroupID: s.Segment.Subgroup, Priority: s.Segment.Priority,
		Properties: properties, PayloadLength: uint64(o.PayloadLen()),
	})
	for off := o.PayloadStart; err == nil && off < o.End; {
		v := s.Reader.View(off, int(o.End-off))
		if len(v) == 0 {
			err = f.await(log, o)
			continue
		}
		err = f.out.payload(v)
		off += int64(len(v))
		s.Reader.Release(off)
	}
	return err
}

// Wake implements track.Waker.
func (f *Fetch) Wake() {
	select {
	case f.grown <- struct{}{}:
	default:
	}
}

// await waits for more of an object. If the stream that brought it has broken off, another one may go on.
func (f *Fetch) await(log *track.Log, o track.Object) error {
	if state, _ := log.State(); state.Ended() && log.End() < o.End {
		return errTruncated
	}
	f.out.pause()
	stalled := time.NewTimer(f.out.stall)
	defer stalled.Stop()
	select {
	case <-f.grown:
		return nil
	case <-stalled.C:
		return errTruncated
	case <-f.req.Context().Done():
		return context.Cause(f.req.Context())
	}
}

// fill sends r, about which the cache knows nothing, from publishers. Objects that one does not bring come from the
// next: a publisher that has moved has left groups with several processes of a relay. Objects that none brings may come
// by subscription, or are marked as unknown.
func (f *Fetch) fill(r moqt.Range, before asked) error {
	if f.fills++; f.fills > maxFills {
		return f.send(r, asked{all: true})
	}
	u, err := newPiece(f, r, before)
	if err != nil {
		before.all = !errors.Is(err, errArrived)
		return f.send(r, before)
	}
	defer u.close()
	done, err := u.copy()
	switch {
	case done || err != nil:
		return err
	case f.out.order == moqt.Descending: // it is not known what of it was sent
		return f.out.skip(track.Unknown, f.out.last(u.rest))
	}
	return f.send(u.rest, u.asked)
}

// awaitArrival waits for an object as long as it may come by subscription.
func (f *Fetch) awaitArrival(l moqt.Location) {
	f.awaitWhile(func() bool { return f.hub.MayArrive(f.data, l) && !f.knows(l) })
}

// reaches reports whether the track is as far as a location, or nothing exists from the Largest Object to there.
func (f *Fetch) reaches(end moqt.Location) bool {
	largest := f.data.Largest()
	if largest == nil || !largest.Less(end) {
		return largest != nil
	}
	s := f.data.At(moqt.Range{Start: largest.Next(), End: end}, f.fresh, nil)
	s.Close()
	return s.Existence == track.Absent && s.Range.End == end
}

// awaitWhile waits as long as that may help, at most for ArrivalPause.
func (f *Fetch) awaitWhile(may func() bool) {
	if !may() {
		return
	}
	f.out.pause()
	defer f.budget.spendOnArrival(time.Now())
	limit := time.NewTimer(min(ArrivalPause, f.budget.nextForArrival()))
	defer limit.Stop()
	tick := time.NewTicker(arrivalInterval)
	defer tick.Stop()
	for may() {
		select {
		case <-tick.C:
		case <-limit.C:
			return
		case <-f.req.Context().Done():
			return // the next write fails
		}
	}
}

// knows reports whether the cache holds an object, or knows that it does not exist.
func (f *Fetch) knows(l moqt.Location) bool {
	s := f.data.At(moqt.Range{Start: l, End: l}, f.fresh, nil)
	s.Close()
	return s.Existence != track.Unknown
}

// fail ends a request that could not be served, or not completely.
func (f *Fetch) fail(err error) {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		refused = &moqt.RequestError{Code: moqt.RequestInternalError, Reason: fmt.Sprintf("fetch failed: %v", err)}
	}
	code := moqt.ResetInternalError
	if errors.Is(err, errTruncated) {
		code = moqt.ResetUnknownObjectStatus
	}
	f.Abort(refused, code)
}

// Abort refuses the request or, if it was accepted, resets the response.
func (f *Fetch) Abort(refused *moqt.RequestError, code moqt.StreamResetCode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.req.Reject(refused) == nil {
		f.cfg.Refused(refused.Code)
		return
	}
	if f.out.stream != nil {
		f.out.stream.CancelWrite(uint64(code))
	}
	_ = f.req.Done() // fails only if the peer has cancelled the request
}
