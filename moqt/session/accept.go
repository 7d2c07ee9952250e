package session

import (
	"errors"
	"io"
	"os"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// loadClass is a kind of requests that share a limit.
type loadClass int

const (
	loadSubscriptions loadClass = iota
	loadFetches
	loadNamespaces
	loadClasses
)

func classOf(kind moqt.MessageType) loadClass {
	switch kind {
	case moqt.MessageSubscribe, moqt.MessagePublish:
		return loadSubscriptions
	case moqt.MessageFetch, moqt.MessageTrackStatus:
		return loadFetches
	}
	return loadNamespaces
}

func (l Limits) of(class loadClass) int {
	return [loadClasses]int{l.MaxSubscriptions, l.MaxFetches, l.MaxNamespaces}[class]
}

// acceptStreams serves the requests of the peer. Those that arrive before SETUP wait in the transport, within its
// limits (draft §3.3).
func (s *Session) acceptStreams() {
	if s.awaitReady(s.ctx) != nil {
		return
	}
	for {
		stream, err := s.conn.AcceptStream(s.ctx)
		if err == nil {
			err = s.acceptRate.Wait(s.ctx)
		}
		if err != nil {
			s.failUnlessEnded(err)
			return
		}
		s.spawn(func() { s.serve(stream) })
	}
}

// serve runs a request of the peer.
func (s *Session) serve(stream transport.Stream) {
	in := s.newInbox(stream)
	m, err := in.first()
	if err != nil {
		s.refuseStream(stream, err)
		return
	}
	r := s.newRequest(stream, in, m.Type(), true)
	refused, err := s.take(r, m)
	if err != nil {
		s.fail(err)
		return
	}
	r.watch()
	s.log.Debug("receive", "message", m.Type(), "stream", stream.ID(), "request", r.id)
	if refused != nil {
		_ = r.Reject(refused) // fails only if the peer has cancelled the request
	} else {
		s.spawn(func() { r.role.serve(s.cfg.Handler) })
	}
	r.read()
}

// first waits for the message that opens a request stream. A peer that opens a stream has something to send, so the
// time starts at once. If nothing at all arrives it fails with [os.ErrDeadlineExceeded].
func (in *inbox) first() (moqt.Message, error) {
	in.begin()
	return in.next()
}

// refuseStream gives up a stream on which no request arrived.
func (s *Session) refuseStream(stream transport.Stream, err error) {
	code := moqt.ResetCancelled
	_, malformed := errors.AsType[*moqt.MalformedTrackError](err)
	_, reset := errors.AsType[*transport.StreamError](err)
	switch {
	case malformed:
		code = moqt.ResetMalformedTrack
	case reset, errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded): // never used
	default:
		s.failUnlessEnded(err)
	}
	stream.CancelRead(uint64(code))
	stream.CancelWrite(uint64(code))
}

// take checks a request of the peer, and enters it. It returns why the request has to be refused, or why the session
// has to end.
func (s *Session) take(r *Request, m moqt.Message) (*moqt.RequestError, error) {
	if err := (moqt.Context{Server: s.cfg.Role == Server}).Check(s.version, m); err != nil {
		return nil, err
	}
	p, _ := parts(m)
	r.id = *p.id
	if err := s.ids.use(r.id); err != nil {
		return nil, err
	}
	// Tokens come first: they are registered even if the request is refused (draft §10.2.2).
	tokens, repeated, err := s.tokens.resolve(p.parameters.AuthorizationTokens)
	if err != nil {
		return nil, err
	}
	r.tokens, p.parameters.AuthorizationTokens = tokens, nil
	r.role = s.peerRole(r, m)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[r.id] = r
	if err := s.checkAlias(r.role); err != nil {
		return nil, err
	}
	refused := s.refusal(r, p, repeated)
	if refused == nil {
		err = r.role.admit()
		refused, _ = errors.AsType[*moqt.RequestError](err)
	}
	if refused != nil {
		return refused, nil
	}
	s.notify()
	return nil, err
}

// refusal is why a request of any type cannot be served, with mu held.
func (s *Session) refusal(r *Request, p messageParts, repeatedToken bool) *moqt.RequestError {
	class := classOf(r.kind)
	s.load[class]++
	switch {
	case s.goawaySent:
		return refuse(moqt.RequestGoingAway, "a GOAWAY was sent")
	case repeatedToken:
		return refuse(moqt.RequestMalformedAuthToken, "an authorization token is repeated")
	case p.namespace.IsForbidden() || p.namespace.IsSession():
		return refuse(moqt.RequestDoesNotExist, "the namespace is reserved")
	case s.load[class] > s.cfg.of(class):
		return overloaded("too many requests are open")
	case !s.rate.Allow():
		return overloaded("too many requests")
	}
	return nil
}

// retryOverloaded is when to repeat a request that was refused because of a limit.
const retryOverloaded = time.Second

func overloaded(reason string) *moqt.RequestError {
	e := refuse(moqt.RequestExcessiveLoad, "%s", reason)
	e.SetRetry(retryOverloaded)
	return e
}

// peerRole is our side of a request of the peer.
func (s *Session) peerRole(r *Request, m moqt.Message) role {
	switch m := m.(type) {
	case *moqt.Subscribe:
		return newSubscribed(r, m)
	case *moqt.Publish:
		return newPublished(r, m)
	case *moqt.Fetch:
		return &IncomingFetch{Request: r, Message: *m}
	case *moqt.TrackStatus:
		return &IncomingTrackStatus{Request: r, Message: *m}
	case *moqt.PublishNamespace:
		return &IncomingPublishNamespace{Request: r, Message: *m}
	case *moqt.SubscribeNamespace:
		return &IncomingSubscribeNamespace{prefixSubscription: prefixSubscription{Request: r}, Message: *m}
	default:
		return &IncomingSubscribeTracks{
			prefixSubscription: prefixSubscription{Request: r}, Message: *m.(*moqt.SubscribeTracks),
		}
	}
}
