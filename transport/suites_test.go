package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"
)

// The order of suites is one for the whole process, so clients with other orders run in processes of their own: in
// this test binary, with the server's address, the ALPN and the suites in the environment.
const (
	clientEnv = "TRANSPORT_TEST_CLIENT"
	serverEnv = "TRANSPORT_TEST_SERVER" // the ALPN
)

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

// runServer is a server that prefers AES until its standard input ends. It prints its address. It reports whether this
// process is such a server.
func runServer(alpn string) bool {
	if alpn == "" {
		return false
	}
	OfferStockSuites()
	cert, _, err := DevCertificate()
	if err != nil {
		fmt.Println(err)
		return true
	}
	l, err := Listen("127.0.0.1:0",
		ListenConfig{Certificate: &cert, Protocols: []string{alpn}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return true
	}
	defer l.Close()
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
	return true
}

// startServer starts a server that prefers AES, and returns its address.
func startServer(t *testing.T) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", serverEnv+"="+testProtocol)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(addr)
}

// negotiated returns the suite that a server selects for a client that offers some.
func negotiated(t *testing.T, addr, alpn, offer string) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", clientEnv+"="+addr+" "+alpn+" "+offer)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	return string(out)
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
			require.Equal(t, tt.want, negotiated(t, s.Addr().String(), alpn, tt.offer), "%s offers %s", alpn, tt.offer)
		}
	}
}

// A server that prefers AES serves clients with it that prefer it, too.
func TestSuitePreferenceAES(t *testing.T) {
	aes := "TLS_AES_128_GCM_SHA256"
	if !(cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL) {
		aes = "TLS_CHACHA20_POLY1305_SHA256"
	}
	addr := startServer(t)
	for _, tt := range []struct{ offer, want string }{
		{"aes128,aes256,chacha", aes},
		{"aes256,aes128,chacha", aes},
		{"chacha,aes128,aes256", "TLS_CHACHA20_POLY1305_SHA256"},
		{"chacha", "TLS_CHACHA20_POLY1305_SHA256"},
		{"aes256", "TLS_AES_256_GCM_SHA384"},
	} {
		for _, alpn := range []string{testProtocol, http3.NextProtoH3} {
			require.Equal(t, tt.want, negotiated(t, addr, alpn, tt.offer), "%s offers %s", alpn, tt.offer)
		}
	}
}

// A client offers ChaCha20-Poly1305 first, to servers that follow its order.
func TestSuitesOffered(t *testing.T) {
	cert, hash, err := DevCertificate()
	require.NoError(t, err)
	offered := make(chan []uint16, 1)
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer udp.Close()
	tr := &quic.Transport{Conn: udp}
	defer tr.Close() // waits for its goroutines, as closing a listener does not
	l, err := tr.Listen(&tls.Config{
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

// A program that stands for clients of others offers their suites.
func TestStockSuitesOffered(t *testing.T) {
	if !cpu.X86.HasAES && !cpu.ARM64.HasAES {
		t.Skip("this CPU has no instructions for AES")
	}
	preferred := defaultCipherSuitesTLS13
	defer func() { defaultCipherSuitesTLS13 = preferred }()
	OfferStockSuites()
	here, there := net.Pipe()
	defer here.Close()
	var offered []uint16
	done := make(chan error)
	go func() {
		defer there.Close()
		done <- tls.Server(there, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			offered = h.CipherSuites
			return nil, os.ErrClosed
		}}).Handshake()
	}()
	go func() {
		_ = tls.Client(here, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}).Handshake()
	}()
	require.ErrorIs(t, <-done, os.ErrClosed)
	require.Equal(t, tls.TLS_AES_128_GCM_SHA256, offered[0])
}
