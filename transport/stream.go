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

// stream is a bidirectional stream. off is the offset of the first byte to receive.
type stream[C errorCode] struct {
	recvStream[C]
	sendStream[C]
}

func newStream[C errorCode](str interface {
	receiver[C]
	sender[C]
}, off int64, mapErr func(error) error, closed func() bool,
) *stream[C] {
	return &stream[C]{recvStream[C]{str, off, mapErr, closed}, sendStream[C]{str, mapErr}}
}

func (s *stream[C]) ID() int64 { return s.recvStream.ID() }
