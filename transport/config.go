package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"sluice/internal/bounds"
)

// ListenConfig is the configuration of a [Listener]. A certificate and Protocols are required; the zero value of all
// else is the default.
type ListenConfig struct {
	// CertFile and KeyFile are PEM files. They are read again when they have changed.
	CertFile, KeyFile string
	// Certificate is used instead of the files, for example one of [DevCertificate].
	Certificate *tls.Certificate
	// GetCertificate is asked for each connection instead, as [tls.Config] has it. It may have none yet.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Mutual lets other servers prove who they are: see [Conn.PeerIsVerified]. Default: none can.
	Mutual *MutualTLS

	// Protocols are the MoQ versions to negotiate, most preferred first: ALPN ids on raw QUIC, and values of
	// WT-Available-Protocols on WebTransport. For example "moqt-18". A WebTransport client that does not send
	// WT-Available-Protocols, as older browsers do, gets the first.
	Protocols []string
	// Origins are the web origins whose pages may connect, for example "https://player.example". Default: all.
	Origins []string

	// Handler answers the HTTP/3 requests that do not open a session. With it, pages of the server's own origin may
	// connect whatever Origins says, by the names that the certificate has. Default: the answer is 404.
	Handler http.Handler

	// Sockets opens the sockets, at least one. A connection's packets must come to the socket that has issued its
	// connection IDs. Default: one, by [net.ListenUDP], with random connection IDs.
	Sockets func(local *net.UDPAddr) ([]Socket, error)

	// NewHooks makes the hooks of each new QUIC connection. It is called for unvalidated client addresses too, so it
	// should be cheap. The socket is the connection's, one of [Listener.PacketConns]. own is how many connections the
	// client's source has, this one included; 0: it is exempt.
	NewHooks func(socket net.PacketConn, own int) quic.Hooks

	// Coalesce is called once for each socket, by its index. It returns a function that returns how long packets may
	// wait for others, so that many are read at a time: waking up for each packet costs CPU time. That function is
	// called when a packet has come after nothing was left to read, on the goroutine that reads the socket, and must
	// not block. 0 and less: packets are read as they come. Default, and anywhere but on Linux: the same.
	Coalesce func(socket int) func() time.Duration

	Limits
	// MaxConnections is how many QUIC connections may exist at a time; further ones are refused. Default: 16,384.
	MaxConnections int
	// MaxConnectionsPerSource is how many of them may come from one source: see [SourceOf]. Default: 1,024. Negative:
	// no limit. There is none for sources within Exempt, which may also have 16,384 streams of each kind open on a
	// connection, as relays need them.
	MaxConnectionsPerSource int
	Exempt                  []netip.Prefix
	// MaxUnvalidated is how many connection attempts a second may come from unvalidated client addresses before clients
	// have to prove their addresses (Retry, RFC 9000 §8.1.2). Default: 40. Negative: they always have to.
	MaxUnvalidated int

	// Inspection shows secrets. Default: none.
	Inspection Inspection

	// Logger gets the messages that an operator can act on. Default: slog.Default().
	Logger *slog.Logger
}

// Limits bound the resources of a connection. The zero value is the default.
type Limits struct {
	// MaxIncomingStreams and MaxIncomingUniStreams are how many streams the peer may have open at a time.
	// Defaults: 256 bidirectional and 1,024 unidirectional ones. Negative: none. A listener allows 128 unidirectional
	// ones, at most, on connections beyond 16 of one source, unless MaxConnectionsPerSource is negative.
	MaxIncomingStreams, MaxIncomingUniStreams int64
	// MaxStreamWindow and MaxConnWindow are the sizes that flow control windows grow to, in bytes, while the
	// application reads fast enough. They start at 256 and 512 KiB on a listener, and at these sizes on a client.
	// Defaults: 4 MiB for a stream and 16 MiB for a connection.
	MaxStreamWindow, MaxConnWindow uint64
	// HandshakeTimeout ends handshakes that take longer, up to and including the WebTransport session. Default: 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout ends connections on which nothing arrives for this time. Default: 30 s.
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
	// CertFile and KeyFile are PEM files with a certificate for servers that ask for one, and its key. They are read
	// for each session. Default: the client has none.
	CertFile, KeyFile string
	// Mutual replaces all fields above but Protocols: the server has to be a listener with the same authority as its
	// ListenConfig.Mutual.
	Mutual *MutualTLS

	// ListenUDP makes the socket of each QUIC connection that is tried. Default: [ListenUDP].
	ListenUDP func(network string, local *net.UDPAddr) (UDPConn, error)
	// NewHooks makes the hooks of each QUIC connection that is tried: one for each address of the server.
	NewHooks func(net.PacketConn) quic.Hooks

	// ProbeAfter is how long a server that was sending may be silent before it is probed, again and again until it
	// answers. A server that was restarted ends the session by its answer. Default: 1 s. Negative: only KeepAlive
	// decides.
	ProbeAfter time.Duration
	// ClosingPeriod is how long a session that the client has closed keeps its socket, and tells a server that asks,
	// because the first message got lost, again that it is closed. Default: it does not.
	ClosingPeriod time.Duration

	Limits
	// SessionLimits bound a WebTransport session within its connection (draft-ietf-webtrans-http3-15 §5). Default: they
	// do not.
	SessionLimits webtransport.Config

	// Inspection shows secrets. Default: none.
	Inspection Inspection
}

const (
	defaultMaxIncomingStreams    = 256  // requests
	defaultMaxIncomingUniStreams = 1024 // subgroups

	// A peer can make the other end buffer this much by leaving holes. A key frame of high-quality video fits a
	// stream's.
	initialStreamWindow = 256 << 10
	initialConnWindow   = 512 << 10

	defaultMaxStreamWindow  = 4 << 20
	defaultMaxConnWindow    = 16 << 20
	defaultHandshakeTimeout = 10 * time.Second
	defaultIdleTimeout      = 30 * time.Second
	defaultMaxConnections   = 16384
	exemptStreams           = 1 << 14
	crowdUniStreams         = 128
	exemptConnWindow        = 64 << 20
	// A sixteenth of all, so that a few addresses cannot keep others out; many clients may be behind one NAT.
	defaultMaxConnectionsPerSource = 1024
	// Each may occupy a place of the fast path until its handshake times out: with the burst, 440 of 512 in 10 s.
	defaultMaxUnvalidated = 40
	// Longer than the time between two groups of most tracks, and short compared with a restart.
	defaultProbeAfter = time.Second
)

// ClosingPeriod is a listener's closing period. A relay that drains asks its peers every second whether they are still
// there, and its question, or the answer, may get lost as well.
const ClosingPeriod = 3 * time.Second

func (c *ListenConfig) validate() error {
	files := c.CertFile != "" && c.KeyFile != ""
	given := c.Certificate != nil || c.GetCertificate != nil
	switch {
	case !given && !files:
		return errors.New("a certificate file and a key file are required")
	case given && (c.CertFile != "" || c.KeyFile != ""):
		return errors.New("give either a certificate or files, not both")
	case c.Mutual != nil:
		if err := c.Mutual.validate(); err != nil {
			return err
		}
	}
	return cmp.Or(bounds.AtLeast("MaxConnections", c.MaxConnections, 0), validateProtocols(c.Protocols),
		c.Limits.validate())
}

// openSockets opens the sockets of a listener.
func (c *ListenConfig) openSockets(local *net.UDPAddr) ([]Socket, error) {
	if c.Sockets != nil {
		return c.Sockets(local)
	}
	udp, err := ListenUDP("udp", local)
	return []Socket{{Conn: udp}}, err
}

// packetConn returns the socket as quic-go reads it. index is its own. If that fails, the socket is closed.
func (c *ListenConfig) packetConn(index int, s *Socket) (UDPConn, error) {
	if err := s.validate(); err != nil {
		return nil, errors.Join(err, s.Conn.Close())
	}
	system, ok := s.Conn.(*net.UDPConn)
	if c.Coalesce == nil || !ok {
		return s.Conn, nil
	}
	delay := c.Coalesce(index)
	if s.Woken == nil {
		return coalesce(system, delay)
	}
	return coalesce(system, func() time.Duration {
		s.Woken()
		return delay()
	})
}

func (c *ClientConfig) validate() error {
	trust := 0
	for _, set := range []bool{c.CAFile != "", c.CertificateSHA256 != nil, c.Insecure, c.Mutual != nil} {
		if set {
			trust++
		}
	}
	switch {
	case trust > 1:
		return errors.New("give only one of a CA file, a certificate's SHA-256, insecure, and mutual TLS")
	case c.Mutual != nil && c.CertFile != "":
		return errors.New("give either a client certificate or mutual TLS, which has one")
	case c.Mutual != nil:
		if err := c.Mutual.validate(); err != nil {
			return err
		}
	case c.CertificateSHA256 != nil && len(c.CertificateSHA256) != 32:
		return fmt.Errorf("CertificateSHA256: %d bytes: must be 32", len(c.CertificateSHA256))
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("a client certificate needs both a certificate file and a key file")
	}
	return cmp.Or(validateProtocols(c.Protocols), c.Limits.validate())
}

// dialOnOwnSocket opens a QUIC connection on a UDP socket of its own.
func (c *ClientConfig) dialOnOwnSocket(ctx context.Context, addr *net.UDPAddr, tlsConf *tls.Config) (
	*quic.Conn, error,
) {
	listen := c.ListenUDP
	if listen == nil {
		listen = ListenUDP
	}
	udp, err := listen("udp", &net.UDPAddr{IP: unspecified(addr.IP)})
	if err != nil {
		return nil, err
	}
	tr := &quic.Transport{Conn: udp, ConnectionIDLength: ConnectionIDLength, ClosingPeriod: c.ClosingPeriod}
	closeSocket := func() { _ = errors.Join(tr.Close(), udp.Close()) }
	qc, err := c.dialOn(ctx, tr, addr, tlsConf)
	if err != nil {
		closeSocket()
		return nil, err
	}
	context.AfterFunc(qc.Context(), func() {
		end, ok := errors.AsType[*quic.ApplicationError](context.Cause(qc.Context()))
		if ok && !end.Remote && c.ClosingPeriod > 0 {
			time.AfterFunc(c.ClosingPeriod, closeSocket)
			return
		}
		closeSocket()
	})
	return qc, nil
}

// dialOn opens a QUIC connection on the socket of a transport.
func (c *ClientConfig) dialOn(ctx context.Context, tr *quic.Transport, addr *net.UDPAddr, tlsConf *tls.Config) (
	*quic.Conn, error,
) {
	if c.NewHooks != nil {
		ctx = quic.WithHooks(ctx, c.NewHooks(tr.Conn))
	}
	conf := c.quicConfig()
	conf.Tracer = c.Inspection.Trace
	conf.HandshakeIdleTimeout = 2 * c.handshakeTimeout() // the context's deadline has the better message
	// A client has chosen its server. With whole windows from the start it seldom has to raise one, which wakes the
	// server and has it acknowledge that.
	conf.InitialStreamReceiveWindow = conf.MaxStreamReceiveWindow
	conf.InitialConnectionReceiveWindow = conf.MaxConnectionReceiveWindow
	qc, err := tr.Dial(c.Inspection.withRemote(ctx, addr), addr, tlsConf, conf)
	if err != nil {
		return nil, err
	}
	if interval := cmp.Or(c.ProbeAfter, defaultProbeAfter); interval > 0 {
		go watch(qc, interval)
	}
	return qc, nil
}

func validateProtocols(p []string) error {
	if len(p) == 0 {
		return errors.New("at least one protocol is required")
	}
	for _, s := range p {
		if s == "" || len(s) > 255 || s == http3.NextProtoH3 {
			return fmt.Errorf("%s: %q: must be the ALPN id of a version of MoQ", "Protocols", s)
		}
	}
	return nil
}

func (l *Limits) validate() error {
	return cmp.Or(
		bounds.AtLeast("HandshakeTimeout", l.HandshakeTimeout, 0),
		bounds.AtLeast("IdleTimeout", l.IdleTimeout, 0))
}

func (l *Limits) handshakeTimeout() time.Duration {
	return cmp.Or(l.HandshakeTimeout, defaultHandshakeTimeout)
}

func (l *Limits) quicConfig() *quic.Config {
	idle := cmp.Or(l.IdleTimeout, defaultIdleTimeout)
	stream, conn := cmp.Or(l.MaxStreamWindow, defaultMaxStreamWindow), cmp.Or(l.MaxConnWindow, defaultMaxConnWindow)
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1}, // the media sender knows only its labels
		HandshakeIdleTimeout:           l.handshakeTimeout() / 2,      // quic-go allows twice that in all
		MaxIdleTimeout:                 idle,
		KeepAlivePeriod:                max(0, cmp.Or(l.KeepAlive, idle/3)),
		InitialStreamReceiveWindow:     min(initialStreamWindow, stream),
		MaxStreamReceiveWindow:         stream,
		InitialConnectionReceiveWindow: min(initialConnWindow, conn),
		MaxConnectionReceiveWindow:     conn,
		MaxIncomingStreams:             cmp.Or(l.MaxIncomingStreams, defaultMaxIncomingStreams),
		MaxIncomingUniStreams:          cmp.Or(l.MaxIncomingUniStreams, defaultMaxIncomingUniStreams),
		EnableDatagrams:                true,
		// WebTransport needs it, so that a reset stream can still be attributed to its session.
		EnableStreamResetPartialDelivery: true,
		// Some peers take ACK_FREQUENCY only from those that take it, too (docs/interop.md).
		EnableAckFrequency: true,
	}
}
