package session

import (
	"context"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// IncomingFetch is a FETCH of the peer (draft §10.12).
type IncomingFetch struct {
	*Request
	baseRole
	Message moqt.Fetch
	// Track and Range are what is asked for. The objects after the largest one are not there to be sent.
	Track moqt.FullTrackName
	Range moqt.Range
	// Joining is the subscription that a joining fetch belongs to, or nil.
	Joining *Publication
}

// OK answers with FETCH_OK.
func (f *IncomingFetch) OK(m moqt.FetchOK) error { return f.answer(&m) }

// OpenStream opens the stream for the objects, and sends its header; there is one for a fetch. It may be opened before
// OK. It is reset when the fetch is cancelled. It waits only for a stream, at the peer's limit.
func (f *IncomingFetch) OpenStream(ctx context.Context) (transport.SendStream, error) {
	return f.openData(ctx, moqt.AppendFetchHeader(nil, f.s.version, moqt.FetchHeader{RequestID: f.id}))
}

// Done ends the fetch after its response was sent, and its stream closed; a stream that is not closed is reset.
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

// resolve finds out what is asked for (draft §10.12).
func (f *IncomingFetch) resolve() *moqt.RequestError {
	if f.Message.FetchType == moqt.FetchStandalone {
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

// tryJoin fills in what is asked for. If that cannot be said yet, it returns what to wait for. A subscription that is
// Pending may stay so; that one which has not arrived yet is on its way was an assumption, and ends after a timeout.
func (f *IncomingFetch) tryJoin(timedOut bool) (*moqt.RequestError, <-chan struct{}) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	id := f.Message.JoiningRequestID
	if r := s.requests[id]; r != nil {
		f.Joining, _ = r.role.(*Publication)
	} else if s.mayArrive(id) && !timedOut {
		return nil, s.changed
	}
	p := f.Joining
	switch {
	case p == nil || p.over || timedOut && !p.established && !p.remote:
		return refuse(moqt.RequestInvalidJoiningRequestID, "request %d is not a subscription", id), nil
	case !p.established || len(p.peerUpdates) > 0:
		return nil, s.changed
	case !p.forward:
		return refuse(moqt.RequestInvalidRange, "the subscription does not forward"), nil
	case p.joining == nil:
		return refuse(moqt.RequestInvalidRange, "there are no objects yet"), nil
	}
	f.Track, f.Range = p.track, f.Message.JoiningRange(*p.joining)
	return nil, nil
}

// mayArrive reports whether a request of the peer may still be on its way.
func (s *Session) mayArrive(id uint64) bool { return id%2 == s.ids.parity && !s.ids.isUsed(id) }

// updateFailed implements role: the data stream is reset with the request (draft §10.9.1).
func (f *IncomingFetch) updateFailed() { f.close() }
