package session

import (
	"context"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// openFunc opens a request stream: [transport.Conn.OpenStreamSync], or one that does not wait.
type openFunc func(context.Context) (transport.Stream, error)

func (s *Session) waitForStream(ctx context.Context) (transport.Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	return s.conn.OpenStreamSync(ctx)
}

func (s *Session) tryStream(context.Context) (transport.Stream, error) { return s.conn.OpenStream() }

// request sends a request of ours. bind gives it its role, once it has a stream.
func (s *Session) request(ctx context.Context, open openFunc, m moqt.Message, bind func(*Request) role) error {
	if err := s.mayRequest(m); err != nil {
		return err
	}
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	r := s.newRequest(stream, s.newInbox(stream), m.Type(), false)
	r.role = bind(r)
	if err := s.enter(r, m); err != nil {
		r.resetStream(moqt.ResetCancelled)
		return err
	}
	r.watch()
	if r.kind == moqt.MessageTrackStatus {
		r.out.finish()
	}
	timer := time.AfterFunc(s.responseTimeout(m), r.responseTimedOut)
	context.AfterFunc(r.ctx, func() { timer.Stop() })
	s.spawn(r.read)
	return nil
}

// mayRequest reports why a request cannot be sent, before a stream is opened for it.
func (s *Session) mayRequest(m moqt.Message) error {
	p, _ := parts(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case s.goawayTaken:
		return ErrGoingAway
	case p.namespace.IsForbidden(), publishes(m) && p.namespace.IsSession():
		return ErrReserved
	}
	switch m := m.(type) {
	case *moqt.Subscribe:
		return s.mayBegin(m.Track, false)
	case *moqt.Publish:
		return s.mayBegin(m.Track, true)
	}
	return nil
}

// mayBegin fails if there is a subscription to a track already in which we have the same role, with mu held.
func (s *Session) mayBegin(track moqt.FullTrackName, asPublisher bool) error {
	key := track.Key()
	if asPublisher && s.publications[key] != nil || !asPublisher && (s.subscriptions[key] != nil || s.offers[key] != nil) {
		return ErrDuplicate
	}
	return nil
}

// enter admits and sends a request of ours.
func (s *Session) enter(r *Request, m moqt.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.id = s.nextID
	err := r.role.admit()
	if err == nil {
		err = r.sendWithID(m)
	}
	if err != nil {
		r.endLocked(err)
		return err
	}
	s.requests[r.id] = r
	return nil
}

// sendWithID sends a message that consumes a Request ID, with s.mu held.
func (r *Request) sendWithID(m moqt.Message) error {
	s := r.s
	p, _ := parts(m)
	known := len(r.ownTokens)
	tokens, err := s.ownTokens.prepare(r, p.parameters.AuthorizationTokens)
	if err == nil {
		*p.id, p.parameters.AuthorizationTokens = s.nextID, tokens
		err = r.out.send(m)
	}
	if err != nil {
		s.ownTokens.undo(r, known)
		return err
	}
	s.nextID += 2
	return nil
}

// responseTimeout is how long the response to m may take.
func (s *Session) responseTimeout(m moqt.Message) time.Duration {
	p, _ := parts(m)
	extra := time.Duration(0)
	for _, asked := range []*uint64{p.parameters.RendezvousTimeout, p.parameters.FillTimeout} {
		if asked != nil {
			extra = min(moqt.Milliseconds(*asked), 24*time.Hour)
		}
	}
	return s.cfg.Timeouts.Response + extra
}

func (r *Request) responseTimedOut() {
	if !r.isAnswered() {
		r.abort(moqt.ResetCancelled, ErrTimeout)
	}
}

// messageParts are the fields that all messages with a Request ID have.
type messageParts struct {
	id         *uint64
	parameters *moqt.Parameters
	namespace  moqt.Namespace // nil where there is none
}

// parts returns false for messages without a Request ID.
func parts(m moqt.Message) (p messageParts, ok bool) {
	switch m := m.(type) {
	case *moqt.Subscribe:
		return messageParts{&m.RequestID, &m.Parameters, m.Track.Namespace}, true
	case *moqt.Publish:
		return messageParts{&m.RequestID, &m.Parameters, m.Track.Namespace}, true
	case *moqt.Fetch:
		return messageParts{&m.RequestID, &m.Parameters, m.Track.Namespace}, true
	case *moqt.TrackStatus:
		return messageParts{&m.RequestID, &m.Parameters, m.Track.Namespace}, true
	case *moqt.PublishNamespace:
		return messageParts{&m.RequestID, &m.Parameters, m.Namespace}, true
	case *moqt.SubscribeNamespace:
		return messageParts{&m.RequestID, &m.Parameters, m.Prefix}, true
	case *moqt.SubscribeTracks:
		return messageParts{&m.RequestID, &m.Parameters, m.Prefix}, true
	case *moqt.RequestUpdate:
		return messageParts{&m.RequestID, &m.Parameters, nil}, true
	}
	return messageParts{}, false
}

// publishes reports whether m offers tracks.
func publishes(m moqt.Message) bool {
	return m.Type() == moqt.MessagePublish || m.Type() == moqt.MessagePublishNamespace
}
