package session

import (
	"sluice/moqt"
	"sluice/transport"
)

// receive processes a message on a request stream, after the one that opened it. It fails if the session has to end.
func (r *Request) receive(m moqt.Message) error {
	r.s.log.Debug("receive", "message", m.Type(), "stream", r.stream.ID(), "request", r.id)
	r.s.mu.Lock()
	over, peerDone, responds := r.over, r.peerDone, !r.remote && !r.answered
	r.s.mu.Unlock()
	switch {
	case peerDone:
		return violation("%s after the last message of a %s", m.Type(), r.kind)
	case over: // it crossed our last message
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
	case *moqt.RequestOK, *moqt.RequestError:
		return r.receiveUpdateResponse(m)
	case *moqt.Goaway:
		return r.receiveGoaway(m)
	case *moqt.SubscribeOK, *moqt.FetchOK:
		return violation("second response to a %s", r.kind)
	}
	return r.role.message(m)
}

// ignore takes a message that needs no answer any more. What it registers is registered nevertheless (draft §10.2.2).
func (r *Request) ignore(m moqt.Message) error {
	u, ok := m.(*moqt.RequestUpdate)
	if !ok {
		return nil
	}
	if err := r.s.ids.use(u.RequestID); err != nil {
		return err
	}
	_, _, err := r.s.tokens.resolve(u.Parameters.AuthorizationTokens)
	return err
}

// where is the context of a message, for the checks that depend on it.
func (r *Request) where(responds bool) moqt.Context {
	c := moqt.Context{
		Stream:        r.kind,
		FromResponder: !r.remote,
		Answers:       moqt.MessageRequestUpdate,
		Server:        r.s.cfg.Role == Server,
		WebTransport:  r.s.conn.Kind() == transport.WebTransport,
	}
	if responds {
		c.Answers = r.kind
	}
	return c
}

// receiveResponse takes the first message from the responder, which is the one response to the request.
func (r *Request) receiveResponse(m moqt.Message) error {
	if e, ok := m.(*moqt.RequestError); ok {
		r.s.mu.Lock()
		r.answered, r.peerDone = true, true
		r.confirmTokens()
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
	r.markAccepted()
	r.peerDone = r.kind == moqt.MessageTrackStatus
	return nil
}

// markAccepted lets those proceed that wait for the response, with s.mu held. They learn of a request that ended because
// of its response from its end.
func (r *Request) markAccepted() {
	if r.answered || r.over {
		return
	}
	r.answered = true
	close(r.responded)
	r.confirmTokens()
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

// receiveGoaway takes a GOAWAY for this request (draft §10.4).
func (r *Request) receiveGoaway(m *moqt.Goaway) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.goawayTaken {
		return violation("second GOAWAY on a request stream")
	}
	if r.kind == moqt.MessageTrackStatus {
		return violation("GOAWAY after a TRACK_STATUS")
	}
	r.goawayTaken = true
	r.goaways <- *m
	return nil
}
