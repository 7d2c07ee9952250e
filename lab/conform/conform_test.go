package conform

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/server"
	"sluice/transport"
)

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// inBubble runs a test in virtual time, with a network on which packets take a millisecond.
func inBubble(t *testing.T, f func(*testing.T, *sim.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := sim.New(1, func(netip.Addr, netip.Addr) sim.Link { return sim.Link{Delay: time.Millisecond} })
		t.Cleanup(func() {
			time.Sleep(5 * time.Minute) // for what those who have left leave behind
			n.Close()
		})
		f(t, n)
	})
}

// listening is the configuration of a relay on the network.
func listening(t *testing.T, n *sim.Network) transport.ListenConfig {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	return transport.ListenConfig{
		Certificate: &cert, Protocols: moqt.ALPNs(), Logger: slog.New(slog.DiscardHandler),
		Sockets: func(at *net.UDPAddr) ([]transport.Socket, error) {
			c, err := n.Listen(netip.AddrPortFrom(loopback, uint16(at.Port)))
			return []transport.Socket{{Conn: c}}, err
		},
	}
}

// suiteFor returns a suite for a relay on the network.
func suiteFor(t *testing.T, n *sim.Network, url string, v moqt.Version) *Suite {
	t.Helper()
	target, err := transport.ParseURL(url)
	require.NoError(t, err)
	s := &Suite{
		URL: target, Protocols: []string{v.ALPN()}, Namespace: moqt.Namespace{"conform"}, Timeout: 5 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, protocols []string) (transport.Conn, error) {
			return transport.Dial(ctx, url, transport.ClientConfig{
				Insecure: true, Protocols: protocols,
				ListenUDP: func(string, *net.UDPAddr) (transport.UDPConn, error) {
					return n.Listen(netip.AddrPortFrom(loopback, 0))
				},
			})
		},
	}
	require.NoError(t, s.Open(t.Context()))
	require.Equal(t, v, s.Version())
	return s
}

// serveSluice runs the relay until the test ends, and returns its address.
func serveSluice(t *testing.T, n *sim.Network) string {
	t.Helper()
	cfg := server.Config{Listen: "127.0.0.1:0", Transport: listening(t, n), Logger: slog.New(slog.DiscardHandler)}
	cfg.FastPath.Mode, cfg.Transport.Protocols = server.FastPathOff, nil
	s, err := server.Listen(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
		require.NoError(t, s.Drain("", time.Second))
	})
	return s.Addr().String()
}

// TestSluice has the relay keep every rule, in every version and on both transports.
func TestSluice(t *testing.T) {
	for _, v := range moqt.Versions() {
		for _, scheme := range []string{"moqt", "https"} {
			t.Run(fmt.Sprint(scheme, " ", uint16(v)), func(t *testing.T) {
				inBubble(t, func(t *testing.T, n *sim.Network) {
					s := suiteFor(t, n, scheme+"://"+serveSluice(t, n)+"/moq", v)
					var out bytes.Buffer
					failed, err := TAP(t.Context(), &out, s, s.Applicable(Cases()), Case.String)
					require.NoError(t, err)
					require.Zero(t, failed, out.String())
				})
			})
		}
	}
}
