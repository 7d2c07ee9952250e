package transport

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sluice/lab/sim"
)

func TestMain(m *testing.M) {
	if runClient(os.Getenv(clientEnv)) || runServer(os.Getenv(serverEnv)) {
		return
	}
	goleak.VerifyTestMain(m)
}

const testProtocol = "moqt-18"

// endsSoon is a timeout of servers in memory.
const endsSoon = 3 * time.Second

// testServer is a listener with a development certificate that the clients of its dial trust.
type testServer struct {
	*Listener
	hash    []byte
	network *sim.Network // nil: the system's
	mute    atomic.Bool  // in memory: all that it sends is lost
}

// inMemory runs a test in virtual time, with a server that ends handshakes soon.
func inMemory(t *testing.T, change func(*ListenConfig), f func(t *testing.T, s *testServer)) {
	synctest.Test(t, func(t *testing.T) {
		host := netip.MustParseAddr("127.0.0.1")
		var s *testServer
		n := sim.New(1, func(from, _ netip.Addr) sim.Link {
			return sim.Link{Delay: time.Millisecond, Down: from == host && s.mute.Load()}
		})
		t.Cleanup(func() {
			time.Sleep(time.Minute) // for what those who have left leave behind
			n.Close()
		})
		s = newServer(t, change, func(c *ListenConfig) {
			c.HandshakeTimeout = endsSoon
			c.Sockets = func(*net.UDPAddr) ([]Socket, error) {
				conn, err := n.Listen(netip.AddrPortFrom(host, 0))
				return []Socket{{Conn: conn}}, err
			}
		})
		s.network = n
		f(t, s)
	})
}

// listenUDP opens a socket in memory.
func (s *testServer) listenUDP(string, *net.UDPAddr) (UDPConn, error) {
	return s.network.Listen(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), 0))
}

func newServer(t testing.TB, change ...func(*ListenConfig)) *testServer {
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
	return &testServer{Listener: l, hash: hash[:]}
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
	if s.network != nil {
		cfg.ListenUDP = s.listenUDP
	}
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

// Connect makes a session for the tests that transporttest takes part in, which cannot be in this package. The server
// may let packets gather.
func Connect(t *testing.T, k Kind, limits Limits, gather bool) (client, server Conn) {
	t.Helper()
	s := newServer(t, func(c *ListenConfig) {
		c.Limits = limits
		if gather {
			c.Coalesce = func(int) func() time.Duration { return func() time.Duration { return time.Millisecond } }
		}
	})
	return s.connect(t, k, func(c *ClientConfig) { c.Limits = limits })
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func write(t *testing.T, w io.Writer, b string) {
	t.Helper()
	_, err := io.WriteString(w, b)
	require.NoError(t, err)
}

// RequireEnded checks that everything fails with the same error.
func RequireEnded(t *testing.T, c Conn, want error) {
	t.Helper()
	ctx := testContext(t)
	select {
	case <-c.Context().Done():
	case <-ctx.Done():
		require.FailNow(t, "the session goes on")
	}
	_, e1 := c.AcceptStream(ctx)
	_, e2 := c.AcceptUniStream(ctx)
	_, e3 := c.OpenStream()
	_, e4 := c.OpenStreamSync(ctx)
	_, e5 := c.OpenUniStream()
	_, e6 := c.OpenUniStreamSync(ctx)
	_, e7 := c.ReceiveDatagram(ctx)
	for i, err := range []error{context.Cause(c.Context()), e1, e2, e3, e4, e5, e6, e7, c.SendDatagram([]byte("x"))} {
		require.Equal(t, want, err, "call %d", i)
	}
}
