package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// Listener accepts raw QUIC connections and WebTransport sessions on one UDP port.
type Listener struct{}

// Listen listens on a UDP address, "host:port" or ":port".
func Listen(addr string, cfg Config) (*Listener, error) { return nil, errors.ErrUnsupported }

// Accept waits for the next session. It fails with [ErrListenerClosed] after Close.
func (l *Listener) Accept(ctx context.Context) (Conn, error) { return nil, errors.ErrUnsupported }

// Addr is the address in use.
func (l *Listener) Addr() net.Addr { return nil }

// PacketConn is the UDP socket, for senders that share it. They must neither read from it nor close it.
func (l *Listener) PacketConn() net.PacketConn { return nil }

// Close ends all sessions with code 0, and frees the port.
func (l *Listener) Close() error { return nil }

// Dial opens a session with a server: over raw QUIC to a moqt:// URL, over WebTransport to an https:// URL.
// The context limits the time that it takes.
func Dial(ctx context.Context, url string, cfg ClientConfig) (Conn, error) {
	return nil, errors.ErrUnsupported
}

// URL is a parsed MoQ URL (draft-ietf-moq-transport-18 §3.1.1).
type URL struct {
	Kind      Kind   // moqt: RawQUIC, https: WebTransport
	Authority string // as in the URL
	Host      string // name or IP address, without brackets
	Port      uint16 // default 443
	Path      string // with "?" and the query if there is one; what the PATH option of SETUP carries
	Fragment  Fragment
}

// Fragment is what follows "#" in a MoQ URL: type ":" value. It is not sent to the server.
type Fragment struct{ Type, Value string }

// ParseURL parses a moqt:// or https:// URL.
func ParseURL(s string) (*URL, error) { return nil, errors.ErrUnsupported }

// DevCertificate makes a self-signed certificate for localhost, 127.0.0.1, ::1 and the given hosts, that browsers
// accept by its SHA-256 (serverCertificateHashes of the WebTransport API): ECDSA P-256, valid for less than 14 days.
func DevCertificate(hosts ...string) (cert tls.Certificate, sha256 [32]byte, err error) {
	return cert, sha256, errors.ErrUnsupported
}

// ParseFingerprint parses a SHA-256 in hexadecimal, with or without colons.
func ParseFingerprint(s string) ([]byte, error) { return nil, errors.ErrUnsupported }
