package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// Fetch is a FETCH of this end (draft §10.12).
type Fetch struct {
	*Request
	baseRole
	request moqt.Fetch
	arrived chan struct{} // closed when data is valid
	data    *fetchStream

	// Guarded by s.mu.
	ok      *moqt.FetchOK
	drained bool // the data was read to its end
}

// Wait waits for FETCH_OK, which may arrive before, during or after the data. The end of ctx does not cancel the fetch.
func (f *Fetch) Wait(ctx context.Context) (*moqt.FetchOK, error) {
	if err := f.wait(ctx); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.ok, nil
}

// Stream waits for the stream with the objects, and returns it after its header. The fetch is over when the stream was
// read to its end and FETCH_OK has arrived. To end it earlier, call [Request.Cancel].
func (f *Fetch) Stream(ctx context.Context) (transport.ReceiveStream, error) {
	if err := f.await(ctx, f.arrived); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return f.data, nil
}

// Update changes the parameters of the fetch with REQUEST_UPDATE, and waits for the response.
func (f *Fetch) Update(ctx context.Context, parameters moqt.Parameters) error {
	_, err := f.sent.update(ctx, parameters, nil)
	return err
}

// admitLocked implements role.
func (f *Fetch) admitLocked() error {
	f.s.table.fetches[f.id] = f
	return nil
}

// accepted implements role.
func (f *Fetch) accepted(m moqt.Message) error {
	ok := m.(*moqt.FetchOK)
	if typ, found := ok.Properties.Mandatory(); found {
		f.abort(moqt.ResetCancelled,
			refuse(moqt.RequestUnsupportedExtension, "mandatory track property %#x is not supported", typ))
		return nil
	}
	if start, known := f.start(); known {
		if err := ok.CheckStart(f.s.version, start); err != nil {
			return err
		}
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.ok = ok
	f.markAcceptedLocked() // before the end that may follow
	f.finishLocked()
	return nil
}

// start returns the start of the range, and false for a relative fetch, where only the publisher knows it.
func (f *Fetch) start() (moqt.Location, bool) {
	switch f.request.FetchType {
	case moqt.FetchStandalone:
		return f.request.Start, true
	case moqt.FetchRelative:
		return moqt.Location{}, false
	case moqt.FetchAbsoluteJoining:
		return moqt.Location{Group: f.request.JoiningStart}, true
	}
	return moqt.Location{}, false
}

// endedLocked implements role.
func (f *Fetch) endedLocked() {
	delete(f.s.table.fetches, f.id)
	if f.data != nil {
		f.data.CancelRead(uint64(moqt.ResetCancelled))
	}
	f.s.table.notify()
}

// finishLocked ends the fetch if it is complete. s.mu is held.
func (f *Fetch) finishLocked() {
	if f.ok != nil && f.drained && f.endLocked(ErrFinished) {
		f.out.finish()
	}
}

// fetchStream ends its fetch when the data ends.
type fetchStream struct {
	transport.ReceiveStream
	fetch *Fetch
}

func (f *fetchStream) Read(p []byte) (int, error) {
	n, err := f.ReceiveStream.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		f.fetch.s.mu.Lock()
		defer f.fetch.s.mu.Unlock()
		f.fetch.drained = true
		f.fetch.finishLocked()
	}
	return n, err
}

// IncomingFetch is a FETCH of the peer (draft §10.12).
type IncomingFetch struct {
	*Request
	baseRole
	Message moqt.Fetch
	// Track and Range name the requested objects. Range may extend beyond the largest object. RangeFrom returns it for
	// all fetches.
	Track moqt.FullTrackName
	Range moqt.Range
	// Joining is the subscription that a joining fetch belongs to, or nil.
	Joining *Publication
}

// OK answers with FETCH_OK.
func (f *IncomingFetch) OK(m moqt.FetchOK) error {
	if !f.Message.Parameters.WantsProperties() {
		m.Properties = nil
	}
	return f.answer(&m)
}

// IsRelative reports whether the range depends on the Largest Object of the track: then RangeFrom returns it.
func (f *IncomingFetch) IsRelative() bool { return f.Message.FetchType == moqt.FetchRelative }

// RangeFrom returns the range that the peer asks for, given the Largest Object of the track.
func (f *IncomingFetch) RangeFrom(largest moqt.Location) moqt.Range {
	if f.IsRelative() {
		return f.Message.RelativeRange(largest)
	}
	return f.Range
}

// OpenStream opens the stream for the objects, and sends its header. A fetch has one stream. It may be opened before
// OK, and is reset when the fetch is cancelled. OpenStream waits only while the peer's stream limit is reached.
func (f *IncomingFetch) OpenStream(ctx context.Context) (transport.SendStream, error) {
	return openFetchStream(ctx, f.Request, f.id)
}

// Done ends the fetch after its response was sent and its stream closed. A stream that is still open is reset.
func (f *IncomingFetch) Done() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if !f.answered {
		return ErrUnanswered
	}
	f.out.finish()
	f.endLocked(ErrFinished)
	return nil
}

// serve implements role.
func (f *IncomingFetch) serve(h Handler) {
	if refused := f.resolve(); refused != nil {
		_ = f.Reject(refused) // fails only if the request is over
		return
	}
	h.HandleFetch(f)
}

// resolve sets Track and Range (draft §10.12).
func (f *IncomingFetch) resolve() *moqt.RequestError {
	if f.IsRelative() {
		f.Track, f.Range = f.Message.Track, moqt.Everything
	} else if f.Message.FetchType == moqt.FetchStandalone {
		f.Track, f.Range = f.Message.Track, moqt.FetchRange(f.Message.Start, f.Message.End)
	} else if refused := f.join(); refused != nil {
		return refused
	}
	if f.Range.Empty() {
		return refuse(moqt.RequestInvalidRange, "the range ends at %s, before its start", f.Range.End)
	}
	return nil
}

// join waits until the subscription of a joining fetch is established and all its updates are processed.
func (f *IncomingFetch) join() *moqt.RequestError {
	timer := time.NewTimer(f.s.cfg.Hold)
	defer timer.Stop()
	for timedOut := false; ; {
		refused, wait := f.tryJoin(timedOut)
		if wait == nil {
			return refused
		}
		select {
		case <-wait:
		case <-timer.C:
			timedOut = true
		case <-f.ctx.Done():
			return refuse(moqt.RequestInternalError, "cancelled")
		}
	}
}

// tryJoin sets Joining, Track and Range. If they are not known yet, it returns a channel that is closed when the caller
// should try again. The caller waits for a Pending subscription as long as that takes, but for one that has not arrived
// yet only until the timeout, because there may be none.
func (f *IncomingFetch) tryJoin(timedOut bool) (*moqt.RequestError, <-chan struct{}) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	id := f.Message.JoiningRequestID
	if r := s.table.requests[id]; r != nil {
		f.Joining, _ = r.role.(*Publication)
	} else if s.responder.mayArrive(id) && !timedOut {
		return nil, s.table.changed
	}
	p := f.Joining
	switch {
	case p == nil || p.over || timedOut && !p.established && !p.remote:
		return refuse(moqt.RequestInvalidJoiningRequestID, "request %d is not a subscription", id), nil
	case !p.established || len(p.peerUpdates) > 0:
		return nil, s.table.changed
	case !p.forward:
		return refuse(moqt.RequestInvalidRange, "the subscription does not forward"), nil
	case p.joining == nil:
		return refuse(moqt.RequestInvalidRange, "there are no objects yet"), nil
	}
	f.Track, f.Range = p.track, f.Message.JoiningRange(*p.joining)
	return nil, nil
}

// updateFailed implements role: the data stream is reset with the request (draft §10.9.1).
func (f *IncomingFetch) updateFailed() { f.close() }
