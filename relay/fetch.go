package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
	"sluice/transport"
)

// fetch is a FETCH of a peer, answered from the cache and, where that has nothing, from upstream (draft §10.12.3).
type fetch struct {
	hub      *hub
	peer     *peer
	req      *session.IncomingFetch
	data     *track.Track
	wanted   moqt.Range
	order    moqt.GroupOrder
	fresh    time.Time     // objects received before it must not be served
	limited  bool          // the peer sent FILL_TIMEOUT:
	budget   time.Duration // how long publishers may still be waited for
	fills    int           // FETCHes to publishers so far
	priority uint8         // guarded by the turns of the peer
	grown    chan struct{}

	stream  transport.SendStream // nil before it is open; guarded by hub.mu
	encoder moqt.FetchEncoder
	buf     []byte
	gap     gap
}

// gap is a run of locations without objects that follows the last object or marker that was sent.
type gap struct {
	existence track.Existence // Present: there is none
	end       moqt.Location
}

// errTruncated ends a response in an object of which the rest will never come.
var errTruncated = errors.New("the object was cut off upstream")

// HandleFetch implements session.Handler.
func (p *peer) HandleFetch(req *session.IncomingFetch) {
	permit, refused := p.authorize(req.Request, ActionFetch, req.Track)
	if refused != nil {
		p.reject(req.Request, refused)
		return
	}
	h := p.acquire(req.Track)
	if h == nil {
		p.reject(req.Request, errTooManyTracks)
		return
	}
	defer p.relay.release(h)
	f := newFetch(h, p, req)
	p.relay.tasks.Go(func() { f.keep(permit) })
	outcome := "complete"
	if err := f.serve(); err != nil {
		outcome = "failed"
		f.fail(err)
	}
	p.relay.metrics.fetches.WithLabelValues(outcome).Inc()
}

func newFetch(h *hub, p *peer, req *session.IncomingFetch) *fetch {
	f := &fetch{
		hub:      h,
		peer:     p,
		req:      req,
		data:     h.track(),
		wanted:   req.Range,
		order:    req.Message.Parameters.Order(moqt.Ascending),
		grown:    make(chan struct{}, 1),
		priority: req.Message.Parameters.Priority(),
		gap:      gap{existence: track.Present},
	}
	if ms := req.Message.Parameters.FillTimeout; ms != nil {
		f.limited, f.budget = true, moqt.Milliseconds(*ms)
	}
	f.fresh = f.data.Fresh()
	f.encoder = moqt.NewFetchEncoder(f.order)
	return f
}

// keep ends the fetch if the permission is withdrawn, and accepts changes of the priority.
func (f *fetch) keep(permit *lease) {
	for {
		select {
		case <-f.req.Context().Done():
			return
		case <-permit.due:
			if refused := permit.review(); refused != nil {
				f.hub.mu.Lock()
				f.abort(refused, moqt.ResetExpiredAuthToken)
				f.hub.mu.Unlock()
			}
		case u := <-f.req.Updates():
			if u.OK(moqt.Parameters{}) == nil && u.Parameters.SubscriberPriority != nil { // else the request is over
				f.peer.turns.setPriority(f, *u.Parameters.SubscriberPriority)
			}
		}
	}
}

// serve answers the request and sends the objects.
func (f *fetch) serve() error {
	f.hub.mu.Lock()
	f.hub.fetches[f] = struct{}{}
	f.hub.mu.Unlock()
	defer func() {
		f.hub.mu.Lock()
		delete(f.hub.fetches, f)
		f.hub.mu.Unlock()
	}()
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
	defer f.peer.turns.give(f)
	if err := f.sendAll(whole); err != nil {
		return err
	}
	if err := f.stream.Close(); err != nil {
		return err
	}
	return f.req.Done()
}

// learnExtent makes sure that it is known how far the track reaches. If that takes a FETCH of all that is wanted, it returns that.
func (f *fetch) learnExtent() (*upstreamFetch, error) {
	if f.hub.covers(f.wanted.End) {
		return nil, nil
	}
	u, err := f.fetchUpstream(f.wanted)
	if errors.Is(err, errArrived) || errors.Is(err, errNoSource) && f.data.Largest() != nil {
		return nil, nil // what is cached is better than nothing
	}
	return u, err
}

// covers reports whether the hub knows if objects up to end have been published.
func (h *hub) covers(end moqt.Location) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, forwards := h.established()
	largest := h.data.Largest()
	return h.described && (forwards || largest != nil && !largest.Less(end) || h.extent != nil && !h.extent.Less(end))
}

// accept sends FETCH_OK, and opens the stream.
func (f *fetch) accept() error {
	if refused := f.clamp(); refused != nil {
		return refused
	}
	limit := f.data.Limit()
	f.hub.mu.Lock()
	properties := f.hub.properties
	f.hub.mu.Unlock()
	err := f.req.OK(moqt.FetchOK{
		EndOfTrack: limit != nil && !f.wanted.End.Next().Less(*limit),
		End:        f.wanted.FetchEnd(),
		Properties: properties,
	})
	if err != nil {
		return err
	}
	stream, err := f.req.OpenStream(f.req.Context())
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.stream = stream
	return err
}

// clamp ends the range at the largest object that there is (draft §10.12.3, §10.13).
func (f *fetch) clamp() *moqt.RequestError {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	end := f.data.Largest()
	if x := f.hub.extent; x != nil && (end == nil || end.Less(*x)) {
		end = x
	}
	if end == nil || end.Less(f.wanted.Start) {
		return &moqt.RequestError{Code: moqt.RequestInvalidRange, Reason: "the range starts after the largest object"}
	}
	if end.Less(f.wanted.End) {
		f.wanted.End = *end
	}
	return nil
}

// sendAll sends the objects of the range. whole, if there is one, brings all of them.
func (f *fetch) sendAll(whole *upstreamFetch) error {
	if err := f.sendRange(whole); err != nil {
		return err
	}
	return f.flush()
}

func (f *fetch) sendRange(whole *upstreamFetch) error {
	rest := f.wanted
	if whole != nil {
		whole.rest = whole.rest.Intersect(f.wanted)
		done, err := f.relay(whole)
		if done || err != nil {
			return err
		}
		rest = whole.rest
	}
	if whole != nil && f.order == moqt.Descending {
		return f.skip(track.Unknown, f.lastOf(rest))
	}
	return f.send(rest)
}

// send sends r from the cache, and from upstream what that does not have.
func (f *fetch) send(r moqt.Range) error {
	if f.order == moqt.Ascending {
		return f.sendAscending(r)
	}
	return f.sendDescending(r)
}

func (f *fetch) sendAscending(r moqt.Range) error {
	for !r.Empty() {
		s := f.data.At(r, f.fresh, f)
		if err := f.sendStretch(s); err != nil {
			return err
		}
		if s.Range.End == moqt.MaxLocation {
			return nil
		}
		r.Start = s.Range.End.Next()
	}
	return nil
}

func (f *fetch) sendDescending(r moqt.Range) error {
	for _, run := range slices.Backward(f.data.Groups(r.Start.Group, r.End.Group)) {
		part := r.Intersect(moqt.Range{
			Start: moqt.Location{Group: run.First}, End: moqt.Location{Group: run.Last, Object: moqt.MaxLocation.Object},
		})
		var err error
		switch run.Existence {
		case track.Present:
			err = f.sendAscending(part)
		case track.Absent:
			err = f.skip(track.Absent, f.lastOf(part))
		default:
			err = f.fill(part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lastOf is the location of r that comes last in the response.
func (f *fetch) lastOf(r moqt.Range) moqt.Location {
	if f.order == moqt.Descending && r.Start.Group < r.End.Group {
		return moqt.Location{Group: r.Start.Group, Object: moqt.MaxLocation.Object}
	}
	return r.End
}

func (f *fetch) sendStretch(s track.Stretch) error {
	switch {
	case s.Existence == track.Absent:
		return f.skip(track.Absent, s.Range.End)
	case s.Existence == track.Unknown:
		return f.fill(s.Range)
	case s.Datagram != nil:
		return f.sendDatagram(s.Datagram)
	}
	defer s.Reader.Close()
	return f.sendObject(s)
}

func (f *fetch) sendDatagram(d *track.Datagram) error {
	err := f.sendHeader(&moqt.FetchObject{
		Location: moqt.Location{Group: d.Group, Object: d.ID}, Datagram: true, Priority: d.Priority, Properties: d.Properties,
		PayloadLength: uint64(len(d.Payload)),
	})
	if err != nil {
		return err
	}
	return f.write(d.Payload)
}

// sendObject sends an object from its log, as it arrives.
func (f *fetch) sendObject(s track.Stretch) error {
	o, log := s.Object, s.Segment.Log
	for log.End() < o.PayloadStart {
		if err := f.await(log, o); err != nil {
			return err
		}
	}
	properties := make(moqt.Properties, o.PropertiesLen)
	s.Reader.ReadAt(properties, o.PropertiesStart)
	err := f.sendHeader(&moqt.FetchObject{
		Location: moqt.Location{Group: s.Segment.Group, Object: o.ID}, SubgroupID: s.Segment.Subgroup, Priority: s.Segment.Priority,
		Properties: properties, PayloadLength: uint64(o.PayloadLen()),
	})
	for off := o.PayloadStart; err == nil && off < o.End; {
		v := s.Reader.View(off, int(o.End-off))
		if len(v) == 0 {
			err = f.await(log, o)
			continue
		}
		err = f.write(v)
		off += int64(len(v))
		s.Reader.Release(off)
	}
	return err
}

// Wake implements track.Waker.
func (f *fetch) Wake() {
	select {
	case f.grown <- struct{}{}:
	default:
	}
}

// await waits for more of an object.
func (f *fetch) await(log *track.Log, o track.Object) error {
	if state, _ := log.State(); state != track.Open && log.End() < o.End {
		return errTruncated
	}
	f.peer.turns.give(f)
	stalled := time.NewTimer(f.peer.relay.cfg.StallTimeout)
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

// skip records that no objects are sent up to end, and why. Gaps mean that objects do not exist; only what is unknown has to be marked, and
// told apart from what came before (draft §11.4.4.2).
func (f *fetch) skip(e track.Existence, end moqt.Location) error {
	if f.gap.existence != e && f.gap.existence != track.Present {
		if err := f.mark(); err != nil {
			return err
		}
	}
	f.gap = gap{e, end}
	return nil
}

// flush ends the gap before an object or the end of the response.
func (f *fetch) flush() error {
	if f.gap.existence == track.Unknown {
		return f.mark()
	}
	f.gap.existence = track.Present
	return nil
}

// mark sends an End of Range indicator for the gap.
func (f *fetch) mark() error {
	kind := moqt.FetchKindNonExistent
	if f.gap.existence == track.Unknown {
		kind = moqt.FetchKindUnknown
	}
	f.gap.existence = track.Present
	return f.encode(&moqt.FetchObject{Kind: kind, Location: f.gap.end})
}

func (f *fetch) sendHeader(o *moqt.FetchObject) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.encode(o)
}

func (f *fetch) encode(o *moqt.FetchObject) error {
	b, err := f.encoder.AppendObject(f.buf[:0], o)
	if err != nil {
		return err
	}
	f.buf = b
	return f.write(b)
}

func (f *fetch) write(b []byte) error {
	f.peer.turns.take(f)
	if err := f.stream.SetWriteDeadline(time.Now().Add(f.peer.relay.cfg.StallTimeout)); err != nil {
		return err
	}
	_, err := f.stream.Write(b)
	return err
}

// fail ends a request that could not be served, or not completely.
func (f *fetch) fail(err error) {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		refused = &moqt.RequestError{Code: moqt.RequestInternalError, Reason: fmt.Sprintf("fetch failed: %v", err)}
	}
	code := moqt.ResetInternalError
	if errors.Is(err, errTruncated) {
		code = moqt.ResetUnknownObjectStatus
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.abort(refused, code)
}

// abort refuses the request or, if it was accepted, resets the response; hub.mu is held.
func (f *fetch) abort(refused *moqt.RequestError, code moqt.StreamResetCode) {
	if f.req.Reject(refused) == nil {
		f.peer.relay.metrics.refused(refused.Code)
		return
	}
	if f.stream != nil {
		f.stream.CancelWrite(uint64(code))
	}
	_ = f.req.Done() // fails only if the peer has cancelled the request
}
