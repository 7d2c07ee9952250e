package transport

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"
)

// errorCode is the type of the codes that streams are reset with.
type errorCode interface {
	quic.StreamErrorCode | webtransport.StreamErrorCode
}

type receiver[C errorCode] interface {
	io.Reader
	StreamID() quic.StreamID
	CancelRead(C)
	SetReadDeadline(time.Time) error
}

type sender[C errorCode] interface {
	io.WriteCloser
	StreamID() quic.StreamID
	CancelWrite(C)
	SetWriteDeadline(time.Time) error
	Context() context.Context
}

type recvStream[C errorCode] struct {
	str    receiver[C]
	off    int64
	mapErr func(error) error
	closed func() bool // this end has closed the session, which streams may outlive; nil: they do not
}

func (s *recvStream[C]) Read(b []byte) (int, error) {
	n, err := s.str.Read(b)
	s.off += int64(n)
	if s.closed != nil && s.closed() {
		return 0, s.mapErr(net.ErrClosed)
	}
	return n, s.mapErr(err)
}

func (s *recvStream[C]) ID() int64                         { return int64(s.str.StreamID()) }
func (s *recvStream[C]) Offset() int64                     { return s.off }
func (s *recvStream[C]) CancelRead(code uint64)            { s.str.CancelRead(C(code)) }
func (s *recvStream[C]) SetReadDeadline(t time.Time) error { return s.mapErr(s.str.SetReadDeadline(t)) }

type sendStream[C errorCode] struct {
	str    sender[C]
	mapErr func(error) error
}

func (s *sendStream[C]) Write(b []byte) (int, error) {
	n, err := s.str.Write(b)
	return n, s.mapErr(err)
}

func (s *sendStream[C]) ID() int64                { return int64(s.str.StreamID()) }
func (s *sendStream[C]) Close() error             { return s.mapErr(s.str.Close()) }
func (s *sendStream[C]) CancelWrite(code uint64)  { s.str.CancelWrite(C(code)) }
func (s *sendStream[C]) Context() context.Context { return s.str.Context() }
func (s *sendStream[C]) SetWriteDeadline(t time.Time) error {
	return s.mapErr(s.str.SetWriteDeadline(t))
}

// stream is a bidirectional stream.
type stream[C errorCode] struct {
	recvStream[C]
	sendStream[C]
}

func (s *stream[C]) ID() int64 { return s.recvStream.ID() }

// streams are the streams of a session: B bidirectional, R incoming and S outgoing ones.
type streams[C errorCode, B interface {
	receiver[C]
	sender[C]
}, R receiver[C], S sender[C]] struct {
	carrier interface {
		AcceptStream(context.Context) (B, error)
		AcceptUniStream(context.Context) (R, error)
		OpenStream() (B, error)
		OpenStreamSync(context.Context) (B, error)
		OpenUniStream() (S, error)
		OpenUniStreamSync(context.Context) (S, error)
	}
	sessionErr func(context.Context, error) error // translates the errors of carrier
	streamErr  func(error) error                  // and those of its streams
	closed     func() bool                        // see recvStream
}

func (s *streams[C, B, R, S]) AcceptStream(ctx context.Context) (Stream, error) {
	str, err := s.carrier.AcceptStream(ctx)
	return s.stream(ctx, str, err)
}

func (s *streams[C, B, R, S]) AcceptUniStream(ctx context.Context) (ReceiveStream, error) {
	str, err := s.carrier.AcceptUniStream(ctx)
	if err != nil {
		return nil, s.sessionErr(ctx, err)
	}
	return &recvStream[C]{str, headerLen(str), s.streamErr, s.closed}, nil
}

func (s *streams[C, B, R, S]) OpenStream() (Stream, error) {
	str, err := s.carrier.OpenStream()
	return s.stream(context.Background(), str, err)
}

func (s *streams[C, B, R, S]) OpenStreamSync(ctx context.Context) (Stream, error) {
	str, err := s.carrier.OpenStreamSync(ctx)
	return s.stream(ctx, str, err)
}

func (s *streams[C, B, R, S]) OpenUniStream() (SendStream, error) {
	str, err := s.carrier.OpenUniStream()
	return s.sendStream(context.Background(), str, err)
}

func (s *streams[C, B, R, S]) OpenUniStreamSync(ctx context.Context) (SendStream, error) {
	str, err := s.carrier.OpenUniStreamSync(ctx)
	return s.sendStream(ctx, str, err)
}

func (s *streams[C, B, R, S]) stream(ctx context.Context, str B, err error) (Stream, error) {
	if err != nil {
		return nil, s.sessionErr(ctx, err)
	}
	return &stream[C]{recvStream[C]{str, headerLen(str), s.streamErr, s.closed}, sendStream[C]{str, s.streamErr}}, nil
}

func (s *streams[C, B, R, S]) sendStream(ctx context.Context, str S, err error) (SendStream, error) {
	if err != nil {
		return nil, s.sessionErr(ctx, err)
	}
	return &sendStream[C]{str, s.streamErr}, nil
}

// headerLen returns how long the header is that WebTransport has taken from a stream.
func headerLen(str any) int64 {
	if s, ok := str.(interface{ HeaderLen() int64 }); ok {
		return s.HeaderLen()
	}
	return 0
}
