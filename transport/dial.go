package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
)

// noApplicationProtocol is the TLS alert in a QUIC error code (RFC 9001 §4.8, RFC 7301 §3.2).
const noApplicationProtocol = 0x100 + 120

// Dial opens a session with a server: over raw QUIC to a moqt:// URL, over WebTransport to an https:// URL.
// The context limits the time that it takes, as does HandshakeTimeout; it has no effect on the session.
func Dial(ctx context.Context, url string, cfg ClientConfig) (Conn, error) {
	return dialURL(ctx, url, &cfg, cfg.dialOnOwnSocket)
}

// openFunc opens a QUIC connection to an address.
type openFunc func(context.Context, *net.UDPAddr, *tls.Config) (*quic.Conn, error)

// dialedConn is a session with the QUIC connection that it is on.
type dialedConn interface {
	Conn
	connection() *quic.Conn
}

func dialURL(ctx context.Context, url string, cfg *ClientConfig, open openFunc) (dialedConn, error) {
	u, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, u, cfg, open)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", WithoutQuery(url), err)
	}
	return c, nil
}

func dial(ctx context.Context, u *URL, cfg *ClientConfig, open openFunc) (dialedConn, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.handshakeTimeout(),
		fmt.Errorf("no answer in %v: does it listen on UDP %s?", cfg.handshakeTimeout(), u.hostPort()))
	defer cancel()
	protocols := cfg.Protocols
	if u.Kind == WebTransport {
		protocols = []string{http3.NextProtoH3}
	}
	tlsConf, err := clientTLS(cfg, u.Host, protocols)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Host)
	if err != nil {
		return nil, explain(err, protocols)
	}
	qc, err := dialFirst(ctx, ips, u.Port, func(ctx context.Context, addr *net.UDPAddr) (*quic.Conn, error) {
		return open(ctx, addr, tlsConf)
	})
	if err != nil {
		return nil, explain(err, protocols)
	}
	if u.Kind == WebTransport {
		return dialWebTransport(ctx, qc, u, cfg)
	}
	if !qc.ConnectionState().SupportsDatagrams.Remote {
		_ = qc.CloseWithError(protocolViolation, "support for DATAGRAM frames is required")
		return nil, errors.New("the server does not support DATAGRAM frames (RFC 9221), which MoQ requires")
	}
	return newQUICSession(newSession(qc, qc.ConnectionState().TLS.NegotiatedProtocol, u.Authority, u.Path)), nil
}

func unspecified(ip net.IP) net.IP {
	if ip.To4() != nil {
		return net.IPv4zero
	}
	return net.IPv6unspecified
}

func dialWebTransport(ctx context.Context, qc *quic.Conn, u *URL, cfg *ClientConfig) (dialedConn, error) {
	stop := context.AfterFunc(ctx, func() { _ = qc.CloseWithError(h3NoError, "") })
	defer stop()
	wt, err := connect(ctx, qc, u, cfg)
	if err != nil {
		_ = qc.CloseWithError(h3NoError, "")
		if ctx.Err() != nil {
			s := qc.ConnectionStats()
			err = fmt.Errorf("%w (the QUIC handshake was complete; packets: %d sent, %d received, %d lost; %v)",
				context.Cause(ctx), s.PacketsSent, s.PacketsReceived, s.PacketsLost, err)
		}
		return nil, fmt.Errorf("WebTransport: %w", err)
	}
	return newWTSession(newSession(qc, wt.SessionState().ApplicationProtocol, u.Authority, u.Path), wt, true), nil
}

// connect sends the CONNECT request.
func connect(ctx context.Context, qc *quic.Conn, u *URL, cfg *ClientConfig) (*webtransport.Session, error) {
	tr := &webtransport.Transport{ApplicationProtocols: cfg.Protocols, Config: &cfg.SessionLimits}
	cc, err := tr.NewClientConn(qc)
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	rsp, wt, err := cc.Dial(ctx, "https://"+u.Authority+u.Path, nil)
	if rsp != nil && err != nil && rsp.StatusCode/100 != 2 {
		defer rsp.Body.Close()
		why, _ := io.ReadAll(io.LimitReader(rsp.Body, maxReason))
		return nil, fmt.Errorf("the server answered %d %s to path %q: %s",
			rsp.StatusCode, http.StatusText(rsp.StatusCode), WithoutQuery(u.Path), strings.TrimSpace(string(why)))
	}
	if err != nil {
		return nil, err
	}
	if wt.SessionState().ApplicationProtocol == "" {
		return nil, fmt.Errorf("the server selected none of %s (it sent no WT-Protocol)",
			strings.Join(cfg.Protocols, ", "))
	}
	return wt, nil
}

// explain adds what to do about a failure to connect.
func explain(err error, protocols []string) error {
	if e, ok := errors.AsType[*quic.TransportError](err); ok && e.ErrorCode == noApplicationProtocol {
		return fmt.Errorf("the server does not speak %s: it has other versions of MoQ, "+
			"or serves the other of moqt:// and https://: %w",
			strings.Join(protocols, ", "), err)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("the server's certificate is not trusted: name its authority, or its SHA-256: %w", err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok { // it is of another host, or out of date
		return fmt.Errorf("the server's certificate is not trusted: %w", err)
	}
	return err
}
