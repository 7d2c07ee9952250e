package server

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// TestDrainAfterALostClose drains a server whose client closes its session. All packets by which it says so get lost,
// and sessions do not time out. The server asks, and the client answers.
func TestDrainAfterALostClose(t *testing.T) {
	for _, scheme := range []string{"moqt", "https"} {
		t.Run(scheme, func(t *testing.T) {
			virtual(t, func(t *testing.T) { testLostClose(t, scheme) })
		})
	}
}

func testLostClose(t *testing.T, scheme string) {
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := withoutIdleTimeout()
	cfg.Listen, cfg.Transport.Certificate, cfg.FastPath.Mode = apart+":0", &cert, FastPathOff
	s := serve(t, cfg)
	dial := transport.ClientConfig{
		Insecure: true, Protocols: moqt.ALPNs(), ClosingPeriod: 2 * time.Minute, ListenUDP: listenUDP(t),
	}
	dial.IdleTimeout = time.Hour
	conn, err := transport.Dial(t.Context(), scheme+"://"+s.Addr().String()+"/", dial)
	require.NoError(t, err)
	h := goaways{got: make(chan moqt.Goaway, 1)}
	runSession(t, conn, h)
	require.Eventually(t, func() bool { return s.Relay().OpenSessions() == 1 }, time.Minute, time.Millisecond)

	s.stop()
	require.NoError(t, <-s.served)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	drained := make(chan error, 1)
	go func() { drained <- s.Retire(ctx, time.Hour, func(string) bool { return true }) }()
	<-h.got
	for range 2 { // the server knows that the client has got all packets: it repeats none
		require.NoError(t, conn.Probe(t.Context()))
	}
	links := &networkOf(t).links
	links.Store(netip.MustParseAddr(apart), sim.Link{Down: true})
	require.NoError(t, conn.CloseWithError(uint64(moqt.SessionNoError), ""))
	synctest.Wait() // all that the client had to say is lost
	require.Equal(t, 1, s.Relay().OpenSessions())
	links.Clear()
	select {
	case err := <-drained:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the relay waits for a client that has closed its session")
	}
}

// TestRetireDuringAHandshake has another process replace a server to which a client is connecting: it gets a session,
// and is asked to move.
func TestRetireDuringAHandshake(t *testing.T) {
	for read, us := range []time.Duration{500, 1500} { // before its first packet is read, and before the answer comes
		virtual(t, func(t *testing.T) { testRetireDuringAHandshake(t, us*time.Microsecond, read) })
	}
}

func testRetireDuringAHandshake(t *testing.T, after time.Duration, connections int) {
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := withoutIdleTimeout()
	cfg.Listen, cfg.Transport.Certificate, cfg.FastPath.Mode = "127.0.0.1:0", &cert, FastPathOff
	s := serve(t, cfg)
	drained := make(chan error, 1)
	time.AfterFunc(after, func() {
		require.Equal(t, connections, s.listener.Connections())
		require.Zero(t, s.relay.OpenSessions())
		s.stop()
		drained <- s.Retire(t.Context(), time.Hour, func(string) bool { return true })
	})
	c, got := come(t, "moqt://"+s.Addr().String()+"/", session.Config{})
	select {
	case <-got:
	case <-c.Context().Done():
		require.Fail(t, "the client was turned away")
	}
	c.Close(moqt.SessionNoError, "")
	require.NoError(t, <-drained)
}
