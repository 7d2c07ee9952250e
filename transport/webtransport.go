package transport

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/quic-go/webtransport-go"
)

const (
	uniStreamType = 0x54 // draft-ietf-webtrans-http3 §4.2
	// firstErrorCode is where HTTP/3 error codes for WebTransport's begin. Each 31st is reserved for greasing
	// (draft-ietf-webtrans-http3 §4.4).
	firstErrorCode = 0x52e4a40fa8db
	// closeLinger is how long the QUIC connection waits for a peer to respond to the end of the session.
	closeLinger = time.Second

	h3NoError = quic.ApplicationErrorCode(http3.ErrCodeNoError)
)

// wtSession is a WebTransport session, the only one on its QUIC connection.
type wtSession struct {
	session
	streams[webtransport.StreamErrorCode, *webtransport.Stream, *webtransport.ReceiveStream, *webtransport.SendStream]
	wt                           *webtransport.Session
	client                       bool
	told                         chan struct{} // closed when the peer knows of the end
	streamPrefix, datagramPrefix []byte
}

func newWTSession(base session, wt *webtransport.Session, client bool) *wtSession {
	id := uint64(wt.ID())
	s := &wtSession{
		session:        base,
		wt:             wt,
		client:         client,
		told:           make(chan struct{}),
		streamPrefix:   quicvarint.Append(quicvarint.Append(nil, uniStreamType), id),
		datagramPrefix: quicvarint.Append(nil, id/4),
	}
	s.carrier, s.streamErr, s.sessionErr, s.closed = wt, s.streamError, s.sessionError, s.hasClosed
	if h, ok := s.qc.Hooks().(SessionLimiter); ok {
		wt.Limit(&limitedHooks{h, s})
	}
	context.AfterFunc(wt.Context(), s.finish)
	return s
}

// finish ends session and connection after webtransport-go has ended its part.
func (s *wtSession) finish() {
	err := s.wt.Err()
	if e, ok := errors.AsType[*webtransport.SessionError](err); ok {
		s.cancel(&SessionError{Code: uint64(e.ErrorCode), Remote: e.Remote, Reason: e.Message})
		s.linger()
		return
	}
	// The CONNECT stream broke. If the connection broke, this call does nothing.
	_ = s.qc.CloseWithError(h3NoError, "")
	s.cancel(s.brokenBy(context.Cause(s.qc.Context()), err))
	close(s.told)
}

// linger closes the connection when the peer has had time to receive WT_CLOSE_SESSION. A server leaves that to the
// client: browsers that receive CONNECTION_CLOSE at once do not tell their applications the session's code.
func (s *wtSession) linger() {
	ctx, cancel := context.WithTimeout(s.qc.Context(), closeLinger)
	defer cancel()
	select {
	case <-s.wt.PeerDone():
	case <-ctx.Done():
	}
	if s.client {
		defer close(s.told) // its process may end then
	} else {
		close(s.told)
		<-ctx.Done()
	}
	_ = s.qc.CloseWithError(h3NoError, "")
}

// brokenBy returns why a session ended without a WT_CLOSE_SESSION of either endpoint.
func (s *wtSession) brokenBy(conn, connectStream error) error {
	e, ok := errors.AsType[*quic.ApplicationError](conn)
	switch {
	case !ok:
		return quicError(conn)
	case !e.Remote:
		return &SessionError{Cause: connectStream}
	case e.ErrorCode == h3NoError:
		return &SessionError{Remote: true, Reason: e.ErrorMessage}
	}
	return &SessionError{Remote: true, Cause: &http3.Error{Remote: true, ErrorCode: http3.ErrCode(e.ErrorCode),
		ErrorMessage: e.ErrorMessage}}
}

func (s *wtSession) SendDatagram(b []byte) error {
	return s.sessionError(context.Background(), s.wt.SendDatagram(b))
}

func (s *wtSession) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	b, err := s.wt.ReceiveDatagram(ctx)
	if s.hasClosed() {
		return nil, s.end()
	}
	return b, s.sessionError(ctx, err)
}

// CloseWithError waits until the peer has responded, or for closeLinger.
func (s *wtSession) CloseWithError(code uint64, reason string) error {
	err := s.wt.CloseWithError(webtransport.SessionErrorCode(min(code, math.MaxUint32)), truncate(reason))
	<-s.told
	return err
}

func (s *wtSession) Kind() Kind             { return WebTransport }
func (s *wtSession) StreamPrefix() []byte   { return s.streamPrefix }
func (s *wtSession) DatagramPrefix() []byte { return s.datagramPrefix }

func (s *wtSession) StreamErrorCode(code uint64) uint64 {
	n := uint64(uint32(code))
	return firstErrorCode + n + n/0x1e
}

// streamError translates the error of a stream. The end of the session may appear on any stream first.
func (s *wtSession) streamError(err error) error {
	if e, ok := errors.AsType[*webtransport.StreamError](err); ok {
		return &StreamError{Code: uint64(e.ErrorCode), Remote: e.Remote}
	}
	if e, ok := errors.AsType[*quic.StreamError](err); ok { // with a code outside of WebTransport's range
		return &StreamError{Remote: e.Remote}
	}
	_, closed := errors.AsType[*webtransport.SessionError](err)
	_, broken := errors.AsType[*http3.Error](err)
	if closed || broken || errors.Is(err, net.ErrClosed) {
		return s.end()
	}
	return err
}

// sessionError translates an error of the session: a limit, or its end.
func (s *wtSession) sessionError(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	if _, ok := errors.AsType[*webtransport.StreamLimitReachedError](err); ok {
		return ErrStreamLimit
	}
	if err := quicError(err); err == ErrStreamLimit || err == ErrDatagramTooLarge {
		return err
	}
	return s.end()
}

// hasClosed reports whether this end has closed the session. Then nothing that comes is read, although webtransport-go
// lets streams go on until the peer has answered.
func (s *wtSession) hasClosed() bool {
	e, ok := errors.AsType[*SessionError](context.Cause(s.ctx))
	return ok && !e.Remote && e.Cause == nil
}

// end waits for finish to find out how the session ended.
func (s *wtSession) end() error {
	<-s.ctx.Done()
	return context.Cause(s.ctx)
}
