package transport

import (
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// Config is the configuration of a [Listener]. A certificate and Protocols are required; the zero value of all else is
// the default.
type Config struct {
	// CertFile and KeyFile are PEM files. They are read again when they have changed.
	CertFile, KeyFile string
	// Certificate is used instead of the files, for example one of [DevCertificate].
	Certificate *tls.Certificate

	// Protocols are the MoQ versions to negotiate, most preferred first: ALPN ids on raw QUIC, and values of
	// WT-Available-Protocols on WebTransport. For example "moqt-18".
	Protocols []string
	// Origins are the web origins whose pages may connect, for example "https://player.example". Default: all.
	Origins []string

	// NewHooks makes the hooks of each new QUIC connection. It is called for unvalidated client addresses too, so it
	// should be cheap. The socket is the one that the listener uses.
	NewHooks func(net.PacketConn) quic.Hooks

	Limits
	// MaxConnections is how many QUIC connections may exist at a time; further ones are refused. Default: 16,384.
	MaxConnections int
	// MaxUnvalidated is how many connection attempts a second may come from unvalidated client addresses before
	// clients have to prove theirs (Retry, RFC 9000 §8.1.2). Default: 256. Negative: they always have to.
	MaxUnvalidated int

	Logger *slog.Logger
}

// Limits bound what a connection may use. The zero value is the default.
type Limits struct {
	// MaxIncomingStreams and MaxIncomingUniStreams are how many streams the peer may have open at a time.
	// Defaults: 256 bidirectional and 1,024 unidirectional ones. Negative: none.
	MaxIncomingStreams, MaxIncomingUniStreams int64
	// MaxStreamWindow and MaxConnWindow are what flow control windows grow to, in bytes, while the application reads
	// fast enough. They start at 64 KiB and 128 KiB. Defaults: 4 MiB for a stream and 16 MiB for a connection.
	MaxStreamWindow, MaxConnWindow uint64
	// HandshakeTimeout ends handshakes that take longer, up to and including the WebTransport session. Default: 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout ends connections on which nothing arrives for so long. Default: 30 s.
	IdleTimeout time.Duration
	// KeepAlive is how long to stay silent before probing that the peer is there. Default: a third of IdleTimeout.
	// Negative: never.
	KeepAlive time.Duration
}

// ClientConfig is the configuration of [Dial]. Protocols are required; the zero value of all else is the default.
type ClientConfig struct {
	// Protocols are the MoQ versions to offer, most preferred first.
	Protocols []string

	// CAFile is a PEM file of certificate authorities to trust instead of the system's.
	CAFile string
	// CertificateSHA256 trusts only the server certificate whose DER form has this SHA-256, and no authority.
	// See [ParseFingerprint].
	CertificateSHA256 []byte
	// Insecure trusts any server.
	Insecure bool

	// NewHooks makes the hooks of the QUIC connection.
	NewHooks func(net.PacketConn) quic.Hooks

	Limits

	Logger *slog.Logger
}
