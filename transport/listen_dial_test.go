package transport

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

// TestDialFromListener dials from the sockets of a listener, which accepts sessions at the same time.
func TestDialFromListener(t *testing.T) {
	hooked := make(chan net.PacketConn, 10)
	here := newServer(t, func(c *ListenConfig) {
		c.Sockets = func(local *net.UDPAddr) (all []Socket, err error) {
			for range 2 { // at different ports, so that the test sees which one it is
				udp, err := net.ListenUDP("udp", local)
				require.NoError(t, err)
				all = append(all, Socket{Conn: udp})
			}
			return all, nil
		}
	})
	there := newServer(t)
	cfg := ClientConfig{
		Protocols: []string{testProtocol}, CertificateSHA256: there.hash,
		NewHooks: func(pc net.PacketConn) quic.Hooks {
			hooked <- pc
			return nil
		},
	}
	used := make(map[string]int)
	for _, k := range []Kind{RawQUIC, WebTransport, RawQUIC, WebTransport} {
		client, err := here.Dial(testContext(t), there.url(k), cfg)
		require.NoError(t, err)
		server, err := there.Accept(testContext(t))
		require.NoError(t, err)
		pc := <-hooked
		require.True(t, slices.Contains(here.PacketConns(), pc))
		require.Equal(t, pc.LocalAddr().String(), server.RemoteAddr().String())
		used[server.RemoteAddr().String()]++
		require.NoError(t, client.SendDatagram([]byte("x")))
		_, err = server.ReceiveDatagram(testContext(t))
		require.NoError(t, err)
		defer func() { <-server.Context().Done() }()
	}
	require.Len(t, used, 2, "the sockets take turns")
	here.connect(t, RawQUIC)
	require.NoError(t, here.Close()) // and with it the sessions that it has dialed
	_, err := here.Dial(testContext(t), there.url(RawQUIC), cfg)
	require.Error(t, err)
}

// TestClientCertificate has a server that asks for one.
func TestClientCertificate(t *testing.T) {
	certFile, keyFile := pairIn(t)
	hash := writePair(t, certFile, keyFile)
	cert, _, err := DevCertificate()
	require.NoError(t, err)
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{testProtocol}, ClientAuth: tls.RequireAnyClientCert,
	}, &quic.Config{EnableDatagrams: true})
	require.NoError(t, err)
	defer l.Close()
	url := "moqt://" + l.Addr().String()
	cfg := ClientConfig{
		Protocols: []string{testProtocol}, Insecure: true, CertFile: certFile, KeyFile: keyFile,
		Limits: Limits{HandshakeTimeout: 10 * time.Second},
	}
	_, err = Dial(testContext(t), url, cfg)
	require.NoError(t, err)
	qc, err := l.Accept(context.Background())
	require.NoError(t, err)
	require.NoError(t, verifyPinned(qc.ConnectionState().TLS.PeerCertificates[0], hash, time.Now()))
	require.NoError(t, qc.CloseWithError(0, ""))

	cfg.KeyFile = ""
	_, err = Dial(testContext(t), url, cfg)
	require.ErrorContains(t, err, "needs both a certificate file and a key file")
	cfg.KeyFile = certFile
	_, err = Dial(testContext(t), url, cfg)
	require.ErrorContains(t, err, "client certificate: ")
}
