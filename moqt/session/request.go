package session

import (
	"context"
	"errors"
	"io"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// maxUnansweredUpdates is how many updates of a request the peer may send without waiting for responses. More than a
// few make no sense, because later updates override earlier ones.
const maxUnansweredUpdates = 16

// Request is what all requests have in common, ours and the peer's: a bidirectional stream (draft §3.3).
type Request struct {
	s      *Session
	id     uint64
	kind   moqt.MessageType
	remote bool // the peer sent it
	stream transport.Stream
	in     *inbox
	out    outbox
	tokens []moqt.Token
	role   role

	ctx       context.Context
	cancel    context.CancelCauseFunc
	responded chan struct{} // closed when a request of ours was accepted
	updates   chan *Update  // of the peer
	goaways   chan moqt.Goaway

	// The rest is guarded by s.mu.
	answered    bool         // has its response
	over        bool         // has run its course, as far as this end is concerned
	peerDone    bool         // the peer has sent its last message
	ownUpdates  []*ownUpdate // that have no response, oldest first
	ignorable   int          // responses that may follow the one that failed several updates
	peerUpdates []*Update    // that have no response, oldest first
	ownTokens   []*ownToken  // in messages of ours that have no response
	goawayTaken bool         // GOAWAY received on the stream
	goawaySent  bool
	linger      *time.Timer
}

// role is what distinguishes the types of requests, at each end.
type role interface {
	// admit enters a request of the peer, or one of ours, where it has to be known, with s.mu held. It returns a
	// *moqt.RequestError to refuse the request and a *moqt.ProtocolError to end the session.
	admit() error
	// serve hands a request of the peer to the application.
	serve(Handler)
	// accepted takes the message that accepts a request of ours.
	accepted(moqt.Message) error
	// message takes messages that only this type of request has.
	message(moqt.Message) error
	// updating applies an update of the peer that is about to be accepted, or refuses it; with s.mu held.
	updating(*Update, *moqt.Parameters) *moqt.RequestError
	// updateFailed does what has to be done after an update of the peer was refused.
	updateFailed()
	// closed is called when the peer has sent FIN. It says whether that ends the request, and why.
	closed() (cause error, ends bool)
	// ended removes the request from where admit entered it, with s.mu held.
	ended()
}

// baseRole is the role of a request of which nothing special has to be remembered.
type baseRole struct{}

func (baseRole) admit() error                                          { return nil }
func (baseRole) serve(Handler)                                         {}
func (baseRole) accepted(moqt.Message) error                           { return nil }
func (baseRole) updating(*Update, *moqt.Parameters) *moqt.RequestError { return nil }
func (baseRole) updateFailed()                                         {}
func (baseRole) closed() (error, bool)                                 { return nil, false }
func (baseRole) ended()                                                {}

func (baseRole) message(m moqt.Message) error { return violation("unexpected %s", m.Type()) }

func (s *Session) newRequest(stream transport.Stream, in *inbox, kind moqt.MessageType, remote bool) *Request {
	r := &Request{
		s:         s,
		kind:      kind,
		remote:    remote,
		stream:    stream,
		in:        in,
		responded: make(chan struct{}),
		updates:   make(chan *Update, maxUnansweredUpdates),
		goaways:   make(chan moqt.Goaway, 1),
	}
	r.out.s, r.out.failed, r.out.stream = s, r.sendFailed, stream
	r.ctx, r.cancel = context.WithCancelCause(s.ctx)
	return r
}

// ID is the Request ID.
func (r *Request) ID() uint64 { return r.id }

// Session is the session that the request belongs to.
func (r *Request) Session() *Session { return r.s }

// Tokens authorize a request of the peer. They all have a value.
func (r *Request) Tokens() []moqt.Token { return r.tokens }

// Context is done when the request is over. Its cause then tells why:
//   - [ErrFinished]: it has run its course
//   - *[DoneError]: the publisher ended the subscription
//   - *[moqt.RequestError]: it was refused
//   - *[transport.StreamError]: it was cancelled, by the peer if Remote is set
//   - *[moqt.MalformedTrackError]: the track breaks the rules
//   - another error of this package, or the cause of the session's end
func (r *Request) Context() context.Context { return r.ctx }

// Goaways delivers the GOAWAY that the peer may send to have this request moved to another session (draft §10.4).
func (r *Request) Goaways() <-chan moqt.Goaway { return r.goaways }

// Updates delivers the updates of the peer. They have to be answered in their order.
func (r *Request) Updates() <-chan *Update { return r.updates }

// Cancel ends the request abruptly (draft §3.3.2). A request that is over stays as it is.
func (r *Request) Cancel(code moqt.StreamResetCode) {
	r.abort(code, &transport.StreamError{Code: uint64(code)})
}

// Flush waits until the transport has taken all messages of the request, so that data which is sent past the session
// does not use up the flow control credit that they need (draft §11.4.2). OpenSubgroup and OpenStream do that.
func (r *Request) Flush(ctx context.Context) error { return r.out.flush(ctx) }

// Reject refuses a request of the peer. It fails if the request has its response already.
func (r *Request) Reject(e *moqt.RequestError) error {
	if err := r.answer(e); err != nil {
		return err
	}
	r.end(e)
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
	send := r.out.send
	if _, refused := m.(*moqt.RequestError); refused || r.kind == moqt.MessageTrackStatus {
		send = r.out.sendLast
	}
	if err := send(m); err != nil {
		return err
	}
	r.answered = true
	return nil
}

// wait waits until a request of ours was accepted.
func (r *Request) wait(ctx context.Context) error { return r.await(ctx, r.responded) }

// await waits until something has happened, unless the context or the request ends before.
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
	case <-happened: // it came first, or at the same time
		return nil
	default:
		return err
	}
}

// end marks the request as over. It reports whether it was not so before. The streams are left to close in their time.
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
	r.role.ended()
	delete(r.s.requests, r.id)
	if r.remote {
		r.s.load[classOf(r.kind)]--
	}
	r.cancel(cause)
	r.linger = time.AfterFunc(r.s.cfg.Timeouts.Write, func() { r.stream.CancelRead(uint64(moqt.ResetCancelled)) })
	return true
}

// abort ends the request, if it is not over, and both directions of its stream.
func (r *Request) abort(code moqt.StreamResetCode, cause error) {
	if !r.end(cause) {
		return
	}
	if r.kind == moqt.MessageSubscribe && !r.remote {
		// STOP_SENDING is what ends a subscription (draft §5.1), and there are publishers that end their session when
		// they see RESET_STREAM.
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

// sendFailed is called when the peer does not take what we send. That may be the last message of a request that is
// over, whose stream is still to be given up.
func (r *Request) sendFailed(err error) {
	code := moqt.ResetCancelled
	if _, cancelled := errors.AsType[*transport.StreamError](err); !cancelled {
		code, err = moqt.ResetTooFarBehind, errStalled
	}
	r.end(err)
	r.resetStream(code)
}

// watch ends the request when the peer asks us to stop sending.
func (r *Request) watch() {
	context.AfterFunc(r.stream.Context(), func() {
		_, err := r.stream.Write(nil) // tells why
		if e, ok := errors.AsType[*transport.StreamError](err); ok && e.Remote {
			r.end(e)
			r.resetStream(moqt.ResetCancelled)
		}
	})
}

// read takes messages until the peer's side of the stream ends.
func (r *Request) read() {
	for {
		m, err := r.in.next()
		if err == nil {
			err = r.receive(m)
		}
		if err != nil {
			r.readEnded(err)
			return
		}
	}
}

func (r *Request) readEnded(err error) {
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
	r.stopLinger()
}

func (r *Request) isAnswered() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.answered
}

func (r *Request) stopLinger() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.linger != nil {
		r.linger.Stop()
	}
}
