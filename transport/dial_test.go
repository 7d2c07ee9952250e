package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

func TestProtocolMismatch(t *testing.T) {
	s := newServer(t)
	other := func(c *ClientConfig) { c.Protocols = []string{"moqt-99", "moqt-98"} }
	_, err := s.dial(t, RawQUIC, other)
	require.ErrorContains(t, err, "does not speak moqt-99, moqt-98")
	_, err = s.dial(t, WebTransport, other)
	require.ErrorContains(t, err, "answered 400")
	require.ErrorContains(t, err, `this server speaks ["moqt-18"]`)

	several := newServer(t, func(c *ListenConfig) { c.Protocols = []string{"moqt-20", "moqt-19", "moqt-18"} })
	for _, k := range []Kind{RawQUIC, WebTransport} {
		client, server := several.connect(t, k, func(c *ClientConfig) { c.Protocols = []string{"moqt-18", "moqt-17"} })
		require.Equal(t, "moqt-18", client.Protocol())
		require.Equal(t, "moqt-18", server.Protocol())
	}
}

func TestDialErrors(t *testing.T) {
	ctx := testContext(t)
	_, err := Dial(ctx, "http://example.com", ClientConfig{Protocols: []string{testProtocol}})
	require.ErrorContains(t, err, "must be moqt://")
	_, err = Dial(ctx, "moqt://does-not-exist.invalid", ClientConfig{Protocols: []string{testProtocol}})
	require.Error(t, err)

	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	url := "moqt://" + silent.LocalAddr().String()
	cfg := ClientConfig{Protocols: []string{testProtocol}, Limits: Limits{HandshakeTimeout: 200 * time.Millisecond}}
	_, err = Dial(ctx, url, cfg)
	require.ErrorContains(t, err, "no answer in 200ms: does it listen on UDP "+silent.LocalAddr().String())
	expired, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Dial(expired, url, cfg)
	require.ErrorIs(t, err, context.Canceled)
}

// quicServer starts a server other than this package's.
func quicServer(t *testing.T, alpn string, conf *quic.Config) (addr string) {
	cert, _, err := DevCertificate()
	require.NoError(t, err)
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert},
		NextProtos: []string{alpn}}, conf)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestDatagramsRequired(t *testing.T) {
	addr := quicServer(t, testProtocol, &quic.Config{})
	_, err := Dial(testContext(t), "moqt://"+addr, ClientConfig{Protocols: []string{testProtocol}, Insecure: true})
	require.ErrorContains(t, err, "does not support DATAGRAM frames")

	s := newServer(t)
	qc, err := quic.DialAddr(testContext(t), s.Addr().String(), &tls.Config{InsecureSkipVerify: true,
		NextProtos: []string{testProtocol}}, &quic.Config{})
	if err == nil { // the end may come before DialAddr has seen that the handshake is complete
		<-qc.Context().Done()
		err = context.Cause(qc.Context())
	}
	require.Equal(t, &quic.ApplicationError{Remote: true, ErrorCode: protocolViolation,
		ErrorMessage: "support for DATAGRAM frames is required"}, err)
}

// A server that accepts the connection and then says nothing must not block Dial for ever.
func TestSilentHTTP3Server(t *testing.T) {
	addr := quicServer(t, "h3", &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true})
	cfg := ClientConfig{Protocols: []string{testProtocol}, Insecure: true,
		Limits: Limits{HandshakeTimeout: 300 * time.Millisecond}}
	_, err := Dial(testContext(t), "https://"+addr+"/", cfg)
	require.Regexp(t, `no answer in 300ms: .* \(the QUIC handshake was complete; packets: [1-9]`, err)
}

// localhost is ::1 and 127.0.0.1; the server listens on one of them.
func TestDialTriesAllAddresses(t *testing.T) {
	s := newServer(t)
	for _, k := range []Kind{RawQUIC, WebTransport} {
		u, err := ParseURL(s.url(k))
		require.NoError(t, err)
		u.Authority = "localhost:" + s.port()
		c, err := Dial(testContext(t), u.String(), ClientConfig{Protocols: []string{testProtocol},
			CertificateSHA256: s.hash})
		require.NoError(t, err)
		require.NoError(t, c.CloseWithError(0, ""))
	}
}

func TestValidate(t *testing.T) {
	cert, _, err := DevCertificate()
	require.NoError(t, err)
	ok := ListenConfig{Certificate: &cert, Protocols: []string{testProtocol}}
	require.NoError(t, ok.validate())
	for want, change := range map[string]func(*ListenConfig){
		"a certificate file and a key file are required": func(c *ListenConfig) { c.Certificate = nil },
		"are required": func(c *ListenConfig) {
			c.Certificate, c.CertFile = nil, "cert.pem"
		},
		"not both":                                    func(c *ListenConfig) { c.KeyFile = "key.pem" },
		"at least one":                                func(c *ListenConfig) { c.Protocols = nil },
		`Protocols: "h3"`:                             func(c *ListenConfig) { c.Protocols = []string{"h3"} },
		"IdleTimeout: -1ns: must be at least 0s":      func(c *ListenConfig) { c.IdleTimeout = -1 },
		"MaxConnections: -1: must be at least 0":      func(c *ListenConfig) { c.MaxConnections = -1 },
		"HandshakeTimeout: -1ns: must be at least 0s": func(c *ListenConfig) { c.HandshakeTimeout = -1 },
	} {
		c := ok
		change(&c)
		require.ErrorContains(t, c.validate(), want)
		_, err := Listen("127.0.0.1:0", c)
		require.ErrorContains(t, err, want)
	}
	for want, c := range map[string]ClientConfig{
		"at least one":      {},
		"only one of":       {Protocols: []string{testProtocol}, Insecure: true, CAFile: "ca.pem"},
		"31 bytes":          {Protocols: []string{testProtocol}, CertificateSHA256: make([]byte, 31)},
		"IdleTimeout: -1ns": {Protocols: []string{testProtocol}, Limits: Limits{IdleTimeout: -1}},
	} {
		_, err := Dial(testContext(t), "moqt://127.0.0.1:1", c)
		require.ErrorContains(t, err, want)
	}
}

// TestDialIsGivenUp ends the context while two addresses are tried, when one attempt cannot be stopped any more.
func TestDialIsGivenUp(t *testing.T) {
	s := newServer(t)
	ctx, giveUp := context.WithCancel(testContext(t))
	defer giveUp()
	late, gone := make(chan *quic.Conn, 1), make(chan struct{})
	silent, fast := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	dial := func(ctx context.Context, addr *net.UDPAddr) (*quic.Conn, error) {
		if addr.AddrPort().Addr() == silent {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		qc := s.dialQUIC(t, testProtocol)
		late <- qc
		giveUp()
		<-gone
		return qc, nil
	}
	_, err := dialFirst(ctx, []netip.Addr{silent, fast}, 1, dial)
	require.ErrorIs(t, err, context.Canceled)
	close(gone)
	select {
	case <-(<-late).Context().Done():
	case <-testContext(t).Done():
		require.FailNow(t, "the connection goes on")
	}
}
