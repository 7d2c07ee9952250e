package transport

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Kind says what carries a session.
type Kind uint8

const (
	// RawQUIC is a QUIC connection whose ALPN is MoQ's (draft-ietf-moq-transport-18 §3.1.4).
	RawQUIC Kind = iota
	// WebTransport is a WebTransport session over HTTP/3 (draft-ietf-moq-transport-18 §3.1.3).
	WebTransport
	// RTSP is a session of another protocol than MoQT, see relay.Guest. No Conn has it.
	RTSP
)

func (k Kind) String() string {
	switch k {
	case WebTransport:
		return "webtransport"
	case RTSP:
		return "rtsp"
	}
	return "quic"
}

// Conn is one Transport Session (draft-ietf-moq-transport-18 §3): a raw QUIC connection or a WebTransport session.
// Its methods may be called on any goroutine. They fail with a *[SessionError] once the session has ended.
type Conn interface {
	// Context is done when the session has ended. Its cause is then a *[SessionError].
	Context() context.Context

	// AcceptStream and AcceptUniStream wait for the next stream that the peer opened.
	AcceptStream(context.Context) (Stream, error)
	AcceptUniStream(context.Context) (ReceiveStream, error)

	// OpenStream and OpenUniStream fail with [ErrStreamLimit] at the peer's limit, where the Sync variants wait.
	// The peer notices a stream when something was written to it, or it was closed or reset.
	OpenStream() (Stream, error)
	OpenStreamSync(context.Context) (Stream, error)
	OpenUniStream() (SendStream, error)
	OpenUniStreamSync(context.Context) (SendStream, error)

	// SendDatagram queues a datagram. It fails with [ErrDatagramTooLarge] if no packet on the path could hold it.
	SendDatagram([]byte) error
	// ReceiveDatagram waits for the next datagram. Datagrams beyond a short queue are dropped.
	ReceiveDatagram(context.Context) ([]byte, error)

	// CloseWithError ends the session: with CONNECTION_CLOSE on raw QUIC, and with the WT_CLOSE_SESSION capsule on
	// WebTransport, which carries 32 bits of the code. Up to 1,024 bytes of the reason are sent. It returns when the
	// peer has been told; on WebTransport that may take a second if the peer does not respond. Later calls change
	// nothing.
	CloseWithError(code uint64, reason string) error

	// Probe asks the peer's transport for a sign of life, and waits for one. The peer answers whatever its application
	// does, as long as its process exists and the network brings packets. It fails when the context is done or the
	// session has ended.
	Probe(context.Context) error
	// Ping asks the same without waiting. A peer that has closed the session answers, too, if it still remembers it.
	Ping()
	// LastReceived is when the last packet came that only the peer can have sent. A packet that a hook has received may
	// count up to Limits.KeepAlive later.
	LastReceived() time.Time
	// RTT is the smoothed round-trip time of the QUIC connection, or 0 if it is not known.
	RTT() time.Duration

	Kind() Kind
	// Protocol is the negotiated application protocol, for example "moqt-18".
	Protocol() string
	// Authority and Path (with the query) are from the URL that was dialed, or from the CONNECT request that was
	// accepted. On accepted raw QUIC sessions both are empty: there the SETUP message has them.
	Authority() string
	Path() string

	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// PeerIsVerified reports whether the peer of an accepted session has shown a certificate of the authority of
	// [ListenConfig.Mutual].
	PeerIsVerified() bool

	// Hooks returns the hooks that NewHooks made for the QUIC connection, or nil.
	Hooks() quic.Hooks
	// StreamPrefix returns the first bytes of each outgoing unidirectional stream of the session, for senders that do
	// not use OpenUniStream: stream type and session id on WebTransport, nothing on raw QUIC. It must not be changed.
	StreamPrefix() []byte
	// DatagramPrefix returns the first bytes of each DATAGRAM frame of the session, for senders that do not use
	// SendDatagram: the quarter stream id (RFC 9297 §2.1) on WebTransport, nothing on raw QUIC. It must not be changed.
	DatagramPrefix() []byte
	// Qlog returns the qlog of the QUIC connection, or nil.
	Qlog() qlogwriter.Trace
	// StreamErrorCode is the error code that RESET_STREAM and STOP_SENDING frames carry for an application's code.
	// WebTransport maps 32-bit codes into a range of HTTP/3's.
	StreamErrorCode(code uint64) uint64
}

// ReceiveStream is the receiving part of a stream. Read fails with a *[StreamError] after a reset.
type ReceiveStream interface {
	io.Reader
	// ID is the QUIC stream id.
	ID() int64
	// Offset is the QUIC stream offset of the next byte that Read returns. On WebTransport it counts the stream header.
	Offset() int64
	// CancelRead asks the peer to stop sending (STOP_SENDING).
	CancelRead(code uint64)
	SetReadDeadline(time.Time) error
}

// SendStream is the sending part of a stream. Write fails with a *[StreamError] after STOP_SENDING.
type SendStream interface {
	io.WriteCloser
	// ID is the QUIC stream id.
	ID() int64
	// CancelWrite resets the stream (RESET_STREAM): bytes that the peer has not received yet may be lost.
	CancelWrite(code uint64)
	SetWriteDeadline(time.Time) error
	// Context is done when the stream was closed or reset, or the peer asked to stop.
	Context() context.Context
}

// Stream is a bidirectional stream.
type Stream interface {
	ReceiveStream
	SendStream
}
