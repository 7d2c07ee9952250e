package session

import (
	"context"
	"errors"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// requestStream is the part of a stream that a request uses, besides its messages.
type requestStream interface {
	ID() int64
	CancelRead(code uint64)
	Write([]byte) (int, error)
	Context() context.Context
}

// Request is the part that all requests of either end have in common: a bidirectional stream (draft §3.3), or in
// draft-16 a part of the control stream.
type Request struct {
	s      *Session
	id     uint64
	kind   moqt.MessageType
	remote bool // the peer sent it
	stream requestStream
	out    messageSender
	role   role

	ctx       context.Context
	cancel    context.CancelCauseFunc
	responded chan struct{} // closed when a request of this end was accepted
	updates   chan *Update  // of the peer

	// Guarded by s.mu.
	awaited     awaitedAnswer
	answered    bool // the response was sent, or has arrived
	over        bool // this end has nothing more to do for the request
	aborted     bool // it has ended by abort, which resets the stream or is about to
	peerDone    bool // the peer has sent its last message
	sent        sentUpdates
	tokens      []moqt.Token // of the peer's request, or of its latest update with tokens
	peerUpdates []*Update    // without a response, oldest first
	goawayTaken bool         // it arrived on the stream
	linger      *time.Timer  // stops reading from the stream some time after the end of the request
}

// role is the part of a request that depends on its type, and on the end.
type role interface {
	// base returns the request.
	base() *Request
	// admitLocked adds a request, of either end, to the tables of its type. It returns a *moqt.RequestError to refuse
	// the request and a *moqt.ProtocolError to end the session. s.mu is held.
	admitLocked() error
	// serve hands a request of the peer to the application.
	serve(Handler)
	// accepted takes the message that accepts a request of this end.
	accepted(moqt.Message) error
	// message takes messages that only this type of request has.
	message(moqt.Message) error
	// updateLocked applies an update of the peer that is about to be accepted, or refuses it. s.mu is held.
	updateLocked(*Update, *moqt.Parameters) *moqt.RequestError
	// updateFailed is called after an update of the peer was refused.
	updateFailed()
	// closed is called when the peer has sent FIN. It reports whether that ends the request, and why.
	closed() (cause error, ends bool)
	// endedLocked removes the request from the tables of its type. s.mu is held.
	endedLocked()
}

// baseRole implements role: its methods do nothing, except that message refuses every message. Roles embed it.
type baseRole struct{}

func (baseRole) admitLocked() error                                        { return nil }
func (baseRole) serve(Handler)                                             {}
func (baseRole) accepted(moqt.Message) error                               { return nil }
func (baseRole) updateLocked(*Update, *moqt.Parameters) *moqt.RequestError { return nil }
func (baseRole) updateFailed()                                             {}
func (baseRole) closed() (error, bool)                                     { return nil, false }
func (baseRole) endedLocked()                                              {}

func (baseRole) message(m moqt.Message) error { return violation("unexpected %s", m.Type()) }

// init sets up a request that has a stream.
func (r *Request) init(s *Session, stream requestStream, kind moqt.MessageType, remote bool) {
	r.s, r.kind, r.remote, r.stream = s, kind, remote, stream
	r.responded = make(chan struct{})
	r.updates = make(chan *Update, maxUnansweredUpdates)
	r.sent.r = r
	switch stream := stream.(type) {
	case *sharedStream:
		r.out = stream
	case transport.Stream:
		r.out = &outbox{s: s, failed: r.sendFailed, stream: stream}
	}
	r.ctx, r.cancel = context.WithCancelCause(s.ctx)
}

func (r *Request) base() *Request { return r }

// ID returns the Request ID.
func (r *Request) ID() uint64 { return r.id }

// Session returns the session that the request belongs to.
func (r *Request) Session() *Session { return r.s }

// Tokens returns the tokens with which the peer authorizes the request. The tokens of the latest accepted update that
// has any replace the request's own (draft §10.9). They all have a value.
func (r *Request) Tokens() []moqt.Token {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.tokens
}

// Context returns a context that is done when the request is over. Its cause is then:
//   - [ErrFinished]: it is complete
//   - *[DoneError]: the publisher ended the subscription
//   - *[moqt.RequestError]: it was refused
//   - *[transport.StreamError]: it was cancelled, by the peer if Remote is set
//   - *[moqt.MalformedTrackError]: the track breaks the rules
//   - another error of this package, or the cause of the session's end
func (r *Request) Context() context.Context { return r.ctx }

// Updates delivers the updates of the peer. They have to be answered in their order.
func (r *Request) Updates() <-chan *Update { return r.updates }

// Cancel ends the request abruptly (draft §3.3.2), unless it is over.
func (r *Request) Cancel(code moqt.StreamResetCode) {
	r.abort(code, &transport.StreamError{Code: uint64(code)})
}

// Flush waits until the transport has taken all messages of the request. A caller that sends data directly on the
// transport calls it first, so that the data does not use up the flow control credit that the messages need (draft
// §11.4.2). OpenSubgroup and OpenStream do so themselves.
func (r *Request) Flush(ctx context.Context) error { return r.out.flush(ctx) }

// Reject refuses a request of the peer. It fails if the request was answered before.
func (r *Request) Reject(e *moqt.RequestError) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if err := r.answerLocked(e); err != nil {
		return err
	}
	r.endLocked(e)
	return nil
}

// answer sends the response to a request of the peer.
func (r *Request) answer(m moqt.Message) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.answerLocked(m)
}

func (r *Request) answerLocked(m moqt.Message) error {
	switch {
	case r.over:
		return context.Cause(r.ctx)
	case !r.remote || r.answered:
		return ErrAnswered
	}
	refusal, refused := m.(*moqt.RequestError)
	if err := r.send(m, refused || r.kind == moqt.MessageTrackStatus); err != nil {
		return err
	}
	r.answered = true
	if refused {
		r.awaited.tell(refusal)
	} else {
		r.awaited.tell(nil)
	}
	return nil
}

// send sends a message that belongs to the request itself, and not to an update of it.
func (r *Request) send(m moqt.Message, last bool) error {
	return r.out.send(moqt.Reference{RequestID: r.id, Answers: r.kind}, m, last)
}

func (r *Request) isAnswered() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.answered
}

// markAcceptedLocked wakes the goroutines that wait for the response. If the request is over, its end has done that.
// s.mu is held.
func (r *Request) markAcceptedLocked() {
	if r.answered || r.over {
		return
	}
	r.answered = true
	close(r.responded)
}

func (r *Request) responseTimedOut() {
	if !r.isAnswered() {
		r.abort(moqt.ResetCancelled, ErrTimeout)
	}
}

// wait waits until a request of this end was accepted.
func (r *Request) wait(ctx context.Context) error { return r.await(ctx, r.responded) }

// await waits until happened is closed. It returns an error if the context or the request ends before.
func (r *Request) await(ctx context.Context, happened <-chan struct{}) (err error) {
	select {
	case <-happened:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.ctx.Done():
		err = context.Cause(r.ctx)
	}
	select {
	case <-happened: // at the same time
		return nil
	default:
		return err
	}
}

// end marks the request as over, and reports whether it was open before. It does not close the streams.
func (r *Request) end(cause error) bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.endLocked(cause)
}

func (r *Request) endLocked(cause error) bool {
	if r.over {
		return false
	}
	r.over = true
	r.s.responder.forgetLocked(r)
	r.role.endedLocked()
	delete(r.s.table.requests, r.id)
	if r.remote {
		r.s.responder.load[classOf(r.kind)]--
	}
	r.cancel(cause)
	r.linger = time.AfterFunc(writeTimeout, func() { r.stream.CancelRead(uint64(moqt.ResetCancelled)) })
	return true
}

// close ends a request of the peer, and our side of its stream.
func (r *Request) close() {
	r.s.mu.Lock()
	r.endLocked(ErrFinished)
	aborted := r.aborted
	r.s.mu.Unlock()
	if !aborted { // else a FIN would hide the reset
		r.out.finish()
	}
}

// abort ends the request and both directions of its stream, unless the request is over.
func (r *Request) abort(code moqt.StreamResetCode, cause error) {
	r.s.mu.Lock()
	ended := r.endLocked(cause)
	r.aborted = r.aborted || ended
	r.s.mu.Unlock()
	if !ended {
		return
	}
	if r.kind == moqt.MessageSubscribe && !r.remote {
		// STOP_SENDING ends a subscription (draft §5.1). Some publishers end their session when they see RESET_STREAM.
		r.stream.CancelRead(uint64(code))
		r.out.finish()
		return
	}
	r.resetStream(code)
}

func (r *Request) resetStream(code moqt.StreamResetCode) {
	r.out.reset(code)
	r.stream.CancelRead(uint64(code))
}

// sendFailed is called when the peer does not read our messages. The request may be over then, but the stream is not.
func (r *Request) sendFailed(err error) {
	if isEnd(err) {
		return // what has arrived for the request is delivered before it ends with the session
	}
	code := moqt.ResetCancelled
	if _, cancelled := errors.AsType[*transport.StreamError](err); !cancelled {
		code, err = moqt.ResetTooFarBehind, errStalled
	}
	r.end(err)
	r.resetStream(code)
}

// watch ends the request when the peer asks us to stop sending, or soon after if its last message may follow.
func (r *Request) watch() {
	context.AfterFunc(r.stream.Context(), func() {
		_, err := r.stream.Write(nil) // returns why the stream has ended
		e, ok := errors.AsType[*transport.StreamError](err)
		if !ok || !e.Remote {
			return
		}
		stop := func() {
			r.end(e)
			r.resetStream(moqt.ResetCancelled)
		}
		switch {
		case r.remote || r.kind == moqt.MessagePublish && r.isAnswered(): // then nothing follows
			stop()
		case r.kind != moqt.MessageFetch: // its data says when a FETCH ends
			r.s.after(drainTime, stop)
		}
	})
}
