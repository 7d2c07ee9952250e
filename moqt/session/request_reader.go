package session

import (
	"errors"
	"io"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// requestReader reads the peer's side of a request stream, in a goroutine of its own.
type requestReader struct {
	*Request
	in messageSource
}

// run processes messages until the peer's side of the stream ends.
func (r requestReader) run() {
	if t, ok := r.in.(*sharedStream); ok {
		defer close(t.read)
	}
	for {
		m, err := r.in.next()
		if err == nil {
			err = r.receive(m)
		}
		if err != nil {
			r.ended(err)
			return
		}
	}
}

// ended is called when the peer's side of the stream has ended with err, or a message caused err.
func (r requestReader) ended(err error) {
	if reset, ok := errors.AsType[*transport.StreamError](err); ok {
		r.abort(moqt.ResetCancelled, reset)
		return
	}
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](err); ok {
		r.abort(moqt.ResetMalformedTrack, malformed)
		return
	}
	if !errors.Is(err, io.EOF) {
		r.s.failUnlessEnded(err)
		return
	}
	cause, ends := r.role.closed()
	if !r.remote && !r.isAnswered() {
		cause, ends = ErrNoResponse, true
	}
	if ends {
		r.end(cause)
		r.out.finish()
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.linger != nil {
		r.linger.Stop()
	}
}

// receive processes a message other than the first one of the stream. It returns an error if the session or the request
// has to end.
func (r requestReader) receive(m moqt.Message) error {
	r.s.log.Debug("receive", "message", m.Type(), "stream", r.stream.ID(), "request", r.id)
	if r.stream.ID() >= 0 { // else the control stream's reader has
		r.s.qlog.Message(qlog.Parsed, r.stream.ID(), r.id, m)
	}
	r.s.mu.Lock()
	over, peerDone, responds := r.over, r.peerDone, !r.remote && !r.answered
	r.s.mu.Unlock()
	switch {
	case peerDone:
		return violation("%s after the last message of a %s", m.Type(), r.kind)
	case over: // the message was sent before our last one arrived
		return r.ignore(m)
	}
	if err := r.where(responds).Check(r.s.version, m); err != nil {
		return err
	}
	if responds {
		return r.receiveResponse(m)
	}
	switch m := m.(type) {
	case *moqt.RequestUpdate:
		return r.receiveUpdate(m)
	case *moqt.PublishNamespace:
		return r.receiveRepeat(m)
	case *moqt.RequestOK, *moqt.RequestError:
		return r.sent.receiveResponse(m)
	case *moqt.Goaway:
		return r.receiveGoaway()
	case *moqt.SubscribeOK, *moqt.FetchOK:
		return violation("second response to a %s", r.kind)
	}
	return r.role.message(m)
}

// ignore takes a message that no longer needs an answer. Its tokens are still registered (draft §10.2.2).
func (r requestReader) ignore(m moqt.Message) error {
	u, ok := m.(*moqt.RequestUpdate)
	if !ok {
		return nil
	}
	if err := r.s.responder.ids.use(u.RequestID); err != nil {
		return err
	}
	_, _, err := r.s.responder.tokens.resolve(u.Parameters.AuthorizationTokens, false)
	return err
}

// where returns the context of a message, for the checks that depend on it.
func (r requestReader) where(responds bool) moqt.Context {
	c := moqt.Context{
		Stream:        r.kind,
		FromResponder: !r.remote,
		Answers:       moqt.MessageRequestUpdate,
		Server:        r.s.cfg.Role == Server,
		WebTransport:  r.s.conn.Kind() == transport.WebTransport,
		Hops:          r.s.control.hops(),
	}
	if responds {
		c.Answers = r.kind
	}
	return c
}

// receiveResponse takes the first message from the responder, the only response to the request.
func (r requestReader) receiveResponse(m moqt.Message) error {
	if e, ok := m.(*moqt.RequestError); ok {
		r.s.mu.Lock()
		r.answered, r.peerDone = true, true
		r.s.mu.Unlock()
		r.end(e)
		r.out.finish()
		return nil
	}
	if !accepts(m.Type(), r.kind) {
		return violation("%s before the response to a %s", m.Type(), r.kind)
	}
	if err := r.role.accepted(m); err != nil {
		return err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.markAcceptedLocked()
	r.peerDone = r.kind == moqt.MessageTrackStatus
	return nil
}

// accepts reports whether messages of type m accept requests of type kind.
func accepts(m, kind moqt.MessageType) bool {
	switch kind {
	case moqt.MessageSubscribe:
		return m == moqt.MessageSubscribeOK
	case moqt.MessageFetch:
		return m == moqt.MessageFetchOK
	}
	return m == moqt.MessageRequestOK
}

// receiveUpdate takes a REQUEST_UPDATE of the peer (draft §10.9).
func (r requestReader) receiveUpdate(m *moqt.RequestUpdate) error {
	p := &r.s.responder
	if err := p.ids.use(m.RequestID); err != nil {
		return err
	}
	tokens, repeated, err := p.tokens.resolve(m.Parameters.AuthorizationTokens, false)
	if err != nil {
		return err
	}
	u := &Update{ID: m.RequestID, Parameters: m.Parameters, Tokens: tokens, r: r.Request}
	u.Parameters.AuthorizationTokens = nil
	u.refused = r.s.control.cameBack(r.kind, &u.Parameters)
	if u.refused == nil {
		u.refused = r.s.responder.checkFilters(&u.Parameters, true)
	}
	if repeated {
		u.refused = refuse(moqt.RequestMalformedAuthToken, "an authorization token is repeated")
	}
	return r.deliver(u)
}

// receiveRepeat takes a PUBLISH_NAMESPACE that follows on the stream of another one. Version 00 of
// draft-lcurley-moq-cluster changes the path and the cost of an announcement in this way.
func (r requestReader) receiveRepeat(m *moqt.PublishNamespace) error {
	before := r.role.(*IncomingPublishNamespace).Message.Namespace
	if m.Namespace.Key() != before.Key() {
		return violation("PUBLISH_NAMESPACE of %s on the stream of %s", m.Namespace, before)
	}
	u := &Update{Parameters: m.Parameters, r: r.Request, repeats: true}
	u.refused = r.s.control.cameBack(r.kind, &m.Parameters)
	u.Parameters.AuthorizationTokens = nil // the tokens of the first message count
	u.Parameters.RouteCost = new(m.Parameters.Cost())
	return r.deliver(u)
}

// deliver hands an update to the application. It returns an error if the session has to end: the peer knows the limit
// since draft-19 (draft-20 §10.3.1.7).
func (r requestReader) deliver(u *Update) error {
	if !r.enter(u) {
		if r.s.version.HasLimits() {
			return &moqt.ProtocolError{Code: moqt.SessionTooManyRequestUpdates, Reason: errTooManyUpdates.Error()}
		}
		r.abort(moqt.ResetExcessiveLoad, errTooManyUpdates)
		return nil
	}
	if r.s.responder.rate.Wait(r.ctx) == nil && r.s.cfg.Pacer.Wait(r.ctx) == nil { // else the request is over
		r.updates <- u // does not block: everything in the channel is in peerUpdates too
	}
	return nil
}

// enter adds an update to those without a response. It returns false if there are too many.
func (r requestReader) enter(u *Update) bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	switch {
	case r.over:
		return true
	case len(r.peerUpdates) == maxUnansweredUpdates:
		return false
	case !r.s.responder.kept.add(u.Tokens):
		u.Tokens, u.refused = nil, errTokenMemory
	}
	r.peerUpdates = append(r.peerUpdates, u)
	return true
}

// receiveGoaway takes a GOAWAY for this request (draft §10.4). The request goes on until the peer ends it.
func (r requestReader) receiveGoaway() error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.goawayTaken {
		return violation("second GOAWAY on a request stream")
	}
	if r.kind == moqt.MessageTrackStatus {
		return violation("GOAWAY after a TRACK_STATUS")
	}
	r.goawayTaken = true
	return nil
}
