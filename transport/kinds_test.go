package transport

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
)

func TestSession(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			client, server := newServer(t).connect(t, k)
			for _, c := range []Conn{client, server} {
				require.Equal(t, testProtocol, c.Protocol())
				require.Equal(t, client.Kind(), c.Kind())
				require.Nil(t, c.Hooks())
				require.NoError(t, c.Context().Err())
			}
			require.Equal(t, client.LocalAddr().(*net.UDPAddr).Port, server.RemoteAddr().(*net.UDPAddr).Port)
			require.Equal(t, "/app?q=1", client.Path())
			require.Equal(t, client.RemoteAddr().String(), client.Authority())
			if client.Kind() == WebTransport {
				require.Equal(t, client.Path(), server.Path())
				require.Equal(t, client.Authority(), server.Authority())
			} else {
				require.Empty(t, server.Path()+server.Authority())
			}
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			ends := func(c *ListenConfig) { c.IdleTimeout, c.KeepAlive = endsSoon, -1 }
			inMemory(t, ends, func(t *testing.T, s *testServer) {
				client, server := s.connect(t, k, func(c *ClientConfig) { c.IdleTimeout, c.KeepAlive = endsSoon, -1 })
				for _, c := range []Conn{client, server} {
					requireLost(t, c, "no recent network activity")
					RequireEnded(t, c, context.Cause(c.Context()))
				}
			})
		})
	}
}

// TestProbe probes a peer whose process is gone, while its last packet is on its way.
func TestProbe(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			inMemory(t, func(*ListenConfig) {}, func(t *testing.T, s *testServer) {
				var socket *sim.Conn
				client, server := s.connect(t, k, func(c *ClientConfig) {
					c.ListenUDP = func(network string, local *net.UDPAddr) (UDPConn, error) {
						conn, err := s.listenUDP(network, local)
						socket, _ = conn.(*sim.Conn)
						return conn, err
					}
				})
				time.Sleep(time.Second)
				client.Ping()
				synctest.Wait()
				socket.Kill()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, server.Probe(ctx), context.DeadlineExceeded)
			})
		})
	}
}

// TestLastReceived has sessions whose applications do nothing. Their keep-alives bring packets.
func TestLastReceived(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			client, server := newServer(t).connect(t, k, func(c *ClientConfig) {
				c.KeepAlive, c.ProbeAfter = 10*time.Millisecond, -1
			})
			for _, c := range []Conn{client, server} {
				for range 3 {
					now := time.Now()
					later := func() bool { return c.LastReceived().After(now) }
					require.Eventually(t, later, time.Minute, time.Millisecond)
					require.False(t, c.LastReceived().After(time.Now()))
				}
			}
		})
	}
}

func TestLongCloseReason(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			client, server := newServer(t).connect(t, k)
			require.NoError(t, server.CloseWithError(1, "x"+strings.Repeat("é", 5000)))
			<-client.Context().Done()
			require.Equal(t, &SessionError{Code: 1, Remote: true, Reason: "x" + strings.Repeat("é", 511)},
				context.Cause(client.Context()))
		})
	}
}
