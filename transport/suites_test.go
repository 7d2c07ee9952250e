package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"
)

// The order of suites is one for the whole process, so clients with other orders run in processes of their own: in
// this test binary, with the server's address, the ALPN and the suites in the environment.
const clientEnv = "TRANSPORT_TEST_CLIENT"

var suites = map[string]uint16{
	"aes128": tls.TLS_AES_128_GCM_SHA256,
	"aes256": tls.TLS_AES_256_GCM_SHA384,
	"chacha": tls.TLS_CHACHA20_POLY1305_SHA256,
}

// runClient prints the suite that a server selects. It reports whether this process is such a client.
func runClient(args string) bool {
	f := strings.Fields(args)
	if len(f) != 3 {
		return false
	}
	defaultCipherSuitesTLS13 = nil
	for name := range strings.SplitSeq(f[2], ",") {
		defaultCipherSuitesTLS13 = append(defaultCipherSuitesTLS13, suites[name])
	}
	defaultCipherSuitesTLS13NoAES = defaultCipherSuitesTLS13
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{f[1]}}
	c, err := quic.DialAddr(context.Background(), f[0], conf, &quic.Config{EnableDatagrams: true})
	if err != nil {
		fmt.Print(err)
		return true
	}
	fmt.Print(tls.CipherSuiteName(c.ConnectionState().TLS.CipherSuite))
	c.CloseWithError(0, "")
	return true
}

func TestSuitePreference(t *testing.T) {
	s := newServer(t)
	for _, tt := range []struct{ offer, want string }{
		{"aes128,aes256,chacha", "TLS_CHACHA20_POLY1305_SHA256"},
		{"aes256,chacha", "TLS_CHACHA20_POLY1305_SHA256"},
		{"chacha,aes128,aes256", "TLS_CHACHA20_POLY1305_SHA256"},
		{"chacha", "TLS_CHACHA20_POLY1305_SHA256"},
		{"aes128,aes256", "TLS_AES_128_GCM_SHA256"},
		{"aes128", "TLS_AES_128_GCM_SHA256"},
		{"aes256", "TLS_AES_256_GCM_SHA384"},
	} {
		for _, alpn := range []string{testProtocol, http3.NextProtoH3} {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0",
				clientEnv+"="+s.Addr().String()+" "+alpn+" "+tt.offer)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err)
			require.Equal(t, tt.want, string(out), "%s offers %s", alpn, tt.offer)
		}
	}
}

// A client offers ChaCha20-Poly1305 first, to servers that follow its order.
func TestSuitesOffered(t *testing.T) {
	cert, hash, err := DevCertificate()
	require.NoError(t, err)
	offered := make(chan []uint16, 1)
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{testProtocol},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			offered <- hello.CipherSuites
			return nil, nil
		},
	}, &quic.Config{EnableDatagrams: true})
	require.NoError(t, err)
	defer l.Close()
	c, err := Dial(t.Context(), "moqt://"+l.Addr().String(), ClientConfig{
		Protocols: []string{testProtocol}, CertificateSHA256: hash[:],
	})
	require.NoError(t, err)
	require.NoError(t, c.CloseWithError(0, ""))
	require.Equal(t, tls.TLS_CHACHA20_POLY1305_SHA256, (<-offered)[0])
}
