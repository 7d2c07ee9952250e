package transport

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

const maxReason = 1024

// session is the common part of raw QUIC and WebTransport sessions.
type session struct {
	qc     *quic.Conn
	ctx    context.Context
	cancel context.CancelCauseFunc

	protocol, authority, path string
}

func newSession(qc *quic.Conn, protocol, authority, path string) session {
	ctx, cancel := context.WithCancelCause(context.Background())
	return session{qc, ctx, cancel, protocol, authority, path}
}

func (s *session) Context() context.Context { return s.ctx }
func (s *session) Protocol() string         { return s.protocol }
func (s *session) Authority() string        { return s.authority }
func (s *session) Path() string             { return s.path }
func (s *session) LocalAddr() net.Addr      { return s.qc.LocalAddr() }
func (s *session) RemoteAddr() net.Addr     { return s.qc.RemoteAddr() }
func (s *session) Hooks() quic.Hooks        { return s.qc.Hooks() }
func (s *session) Qlog() qlogwriter.Trace   { return s.qc.QlogTrace() }
func (s *session) connection() *quic.Conn   { return s.qc }

// PeerIsVerified implements Conn.
func (s *session) PeerIsVerified() bool { return len(s.qc.ConnectionState().TLS.VerifiedChains) > 0 }

// Ping implements Conn. It sends a PING (RFC 9000 §19.2).
func (s *session) Ping() { s.qc.Ping() }

// RTT implements Conn.
func (s *session) RTT() time.Duration { return s.qc.ConnectionStats().SmoothedRTT }

// LastReceived implements Conn.
func (s *session) LastReceived() time.Time { return s.qc.LastReceived() }

// probeInterval is how often Probe looks for the answer of the peer: often enough to notice it in a round trip of most
// networks.
const probeInterval = 10 * time.Millisecond

// Probe implements Conn. It waits until the peer has acknowledged a packet of now. Others may have been on their way
// for long, although the peer is gone.
func (s *session) Probe(ctx context.Context) error {
	begun, again := time.Now(), probeInterval
	s.Ping()
	look := time.NewTicker(probeInterval)
	defer look.Stop()
	for s.qc.LastAnswered().Before(begun) {
		select {
		case now := <-look.C:
			if now.Sub(begun) >= again { // the PING may be in a packet that quic-go had begun before
				again *= 2
				s.Ping()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	return nil
}

// quicSession is a session on a QUIC connection of its own.
type quicSession struct {
	session
	streams[quic.StreamErrorCode, *quic.Stream, *quic.ReceiveStream, *quic.SendStream]
}

func newQUICSession(base session) *quicSession {
	s := &quicSession{session: base}
	s.carrier, s.streamErr = s.qc, quicError
	s.sessionErr = func(_ context.Context, err error) error { return quicError(err) }
	context.AfterFunc(s.qc.Context(), func() { s.cancel(quicError(context.Cause(s.qc.Context()))) })
	return s
}

func (s *quicSession) SendDatagram(b []byte) error { return quicError(s.qc.SendDatagram(b)) }

func (s *quicSession) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	b, err := s.qc.ReceiveDatagram(ctx)
	return b, quicError(err)
}

func (s *quicSession) CloseWithError(code uint64, reason string) error {
	return s.qc.CloseWithError(quic.ApplicationErrorCode(code), truncate(reason))
}

// truncate cuts a reason to WebTransport's limit (draft-ietf-webtrans-http3 §6). Any QUIC packet holds that.
func truncate(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

func (s *quicSession) Kind() Kind                         { return RawQUIC }
func (s *quicSession) StreamPrefix() []byte               { return nil }
func (s *quicSession) DatagramPrefix() []byte             { return nil }
func (s *quicSession) StreamErrorCode(code uint64) uint64 { return code }

// quicError translates an error of quic-go into one of this package. It returns io.EOF and the errors of deadlines and
// contexts unchanged.
func quicError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*quic.StreamError](err); ok {
		return &StreamError{Code: uint64(e.ErrorCode), Remote: e.Remote}
	}
	if e, ok := errors.AsType[*quic.ApplicationError](err); ok {
		return &SessionError{Code: uint64(e.ErrorCode), Remote: e.Remote, Reason: e.ErrorMessage}
	}
	if _, ok := errors.AsType[*quic.DatagramTooLargeError](err); ok {
		return ErrDatagramTooLarge
	}
	if _, ok := errors.AsType[*quic.StreamLimitReachedError](err); ok {
		return ErrStreamLimit
	}
	if e, ok := errors.AsType[*quic.TransportError](err); ok {
		return &SessionError{Remote: e.Remote, Cause: err}
	}
	if errors.Is(err, net.ErrClosed) { // timeouts, stateless reset, the socket
		return &SessionError{Cause: err}
	}
	return err
}
