package transport

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if runClient(os.Getenv(clientEnv)) || runServer(os.Getenv(serverEnv)) {
		return
	}
	goleak.VerifyTestMain(m)
}

const testProtocol = "moqt-18"

// endsSoon is a timeout that tests wait for. Even on a busy machine, all that should come before it is done by then.
const endsSoon = 3 * time.Second

// testServer is a listener with a development certificate that the clients of its dial trust.
type testServer struct {
	*Listener
	hash []byte
}

func newServer(t *testing.T, change ...func(*ListenConfig)) *testServer {
	t.Helper()
	cert, hash, err := DevCertificate()
	require.NoError(t, err)
	cfg := ListenConfig{Certificate: &cert, Protocols: []string{testProtocol}, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	l, err := Listen("127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return &testServer{l, hash[:]}
}

func (s *testServer) port() string {
	return strconv.Itoa(s.Addr().(*net.UDPAddr).Port)
}

func (s *testServer) url(k Kind) string {
	if k == WebTransport {
		return "https://127.0.0.1:" + s.port() + "/app?q=1"
	}
	return "moqt://127.0.0.1:" + s.port() + "/app?q=1"
}

func (s *testServer) dial(t *testing.T, k Kind, change ...func(*ClientConfig)) (Conn, error) {
	t.Helper()
	cfg := ClientConfig{Protocols: []string{testProtocol}, CertificateSHA256: s.hash}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Dial(testContext(t), s.url(k), cfg)
	if err == nil {
		t.Cleanup(func() { c.CloseWithError(0, "") })
	}
	return c, err
}

// connect makes a session, and returns both of its ends.
func (s *testServer) connect(t *testing.T, k Kind, change ...func(*ClientConfig)) (client, server Conn) {
	t.Helper()
	client, err := s.dial(t, k, change...)
	require.NoError(t, err)
	server, err = s.Accept(testContext(t))
	require.NoError(t, err)
	return client, server
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eachKind runs a test on a session of each kind, and on one whose server lets packets gather.
func eachKind(t *testing.T, f func(t *testing.T, client, server Conn)) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			client, server := newServer(t).connect(t, k)
			f(t, client, server)
		})
	}
	t.Run("packets wait for others", func(t *testing.T) {
		s := newServer(t, func(c *ListenConfig) {
			c.Coalesce = func(int) func() time.Duration { return func() time.Duration { return time.Millisecond } }
		})
		client, server := s.connect(t, RawQUIC)
		f(t, client, server)
	})
}

// bothDirections also runs it with the ends exchanged.
func bothDirections(t *testing.T, f func(t *testing.T, from, to Conn)) {
	eachKind(t, func(t *testing.T, client, server Conn) {
		t.Run("from client", func(t *testing.T) { f(t, client, server) })
		t.Run("from server", func(t *testing.T) { f(t, server, client) })
	})
}

func write(t *testing.T, w io.Writer, b string) {
	t.Helper()
	_, err := io.WriteString(w, b)
	require.NoError(t, err)
}
