package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
)

func TestSession(t *testing.T) {
	eachKind(t, func(t *testing.T, client, server Conn) {
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

func TestUniStreams(t *testing.T) {
	bothDirections(t, func(t *testing.T, from, to Conn) {
		payload := make([]byte, 1<<20)
		rand.Read(payload)
		w, err := from.OpenUniStreamSync(testContext(t))
		require.NoError(t, err)
		go func() {
			w.Write(payload)
			w.Close()
		}()
		r, err := to.AcceptUniStream(testContext(t))
		require.NoError(t, err)
		require.Equal(t, w.ID(), r.ID())

		header := int64(len(from.StreamPrefix()))
		require.Equal(t, header, r.Offset())
		got := make([]byte, 100)
		_, err = io.ReadFull(r, got)
		require.NoError(t, err)
		require.Equal(t, header+100, r.Offset())
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(payload, append(got, rest...)))
		require.Equal(t, header+int64(len(payload)), r.Offset())

		_, err = w.Write([]byte("late"))
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF)
	})
}

func TestStreams(t *testing.T) {
	bothDirections(t, func(t *testing.T, from, to Conn) {
		a, err := from.OpenStream()
		require.NoError(t, err)
		write(t, a, "ping")
		require.NoError(t, a.Close())
		b, err := to.AcceptStream(testContext(t))
		require.NoError(t, err)
		require.Equal(t, a.ID(), b.ID())
		require.EqualValues(t, len(from.StreamPrefix()), b.Offset())
		require.Zero(t, a.Offset(), "the response has no header")
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, "ping", string(got))

		write(t, b, "pong")
		require.NoError(t, b.Close())
		got, err = io.ReadAll(a)
		require.NoError(t, err)
		require.Equal(t, "pong", string(got))
		require.EqualValues(t, 4, a.Offset())
		<-a.Context().Done()
	})
}

func TestReset(t *testing.T) {
	bothDirections(t, func(t *testing.T, from, to Conn) {
		for _, code := range []uint64{0, 1, 0x1d, 0x1e, 0x1f, 0x12345, 1<<32 - 1} {
			w, err := from.OpenUniStream()
			require.NoError(t, err)
			write(t, w, "x")
			r, err := to.AcceptUniStream(testContext(t))
			require.NoError(t, err)
			_, err = io.ReadFull(r, make([]byte, 1))
			require.NoError(t, err)
			w.CancelWrite(code)
			_, err = r.Read(make([]byte, 1))
			require.Equal(t, &StreamError{Code: code, Remote: true}, err)
			_, err = w.Write([]byte("x"))
			require.Equal(t, &StreamError{Code: code}, err)
		}
	})
}

func TestStopSending(t *testing.T) {
	bothDirections(t, func(t *testing.T, from, to Conn) {
		w, err := from.OpenUniStream()
		require.NoError(t, err)
		write(t, w, "x")
		r, err := to.AcceptUniStream(testContext(t))
		require.NoError(t, err)
		r.CancelRead(7)
		<-w.Context().Done()
		_, err = w.Write([]byte("x"))
		require.Equal(t, &StreamError{Code: 7, Remote: true}, err)
		_, err = r.Read(make([]byte, 1))
		require.Equal(t, &StreamError{Code: 7}, err)
	})
}

func TestDatagrams(t *testing.T) {
	bothDirections(t, func(t *testing.T, from, to Conn) {
		require.NoError(t, from.SendDatagram([]byte("hello")))
		got, err := to.ReceiveDatagram(testContext(t))
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))

		max := from.MaxDatagramSize()
		require.Greater(t, max, 1100)
		require.Less(t, max, 1500)
		require.Equal(t, ErrDatagramTooLarge, from.SendDatagram(make([]byte, 1500)))
		require.NoError(t, from.SendDatagram(make([]byte, max)))
		got, err = to.ReceiveDatagram(testContext(t))
		require.NoError(t, err)
		require.Len(t, got, max)
	})
}

func TestClose(t *testing.T) {
	for _, fromClient := range []bool{true, false} {
		eachKind(t, func(t *testing.T, from, to Conn) {
			if !fromClient {
				from, to = to, from
			}
			w, err := to.OpenUniStream()
			require.NoError(t, err)
			write(t, w, "x")
			r, err := from.AcceptUniStream(testContext(t))
			require.NoError(t, err)
			_, err = io.ReadFull(r, make([]byte, 1))
			require.NoError(t, err)

			require.NoError(t, from.CloseWithError(0x12, "bye"))
			local, remote := &SessionError{Code: 0x12, Reason: "bye"}, &SessionError{Code: 0x12, Reason: "bye",
				Remote: true}
			requireEnded(t, from, local)
			requireEnded(t, to, remote)
			_, err = r.Read(make([]byte, 1))
			require.Equal(t, local, err)
			_, err = w.Write([]byte("x"))
			require.Equal(t, remote, err)
			require.NoError(t, from.CloseWithError(0x13, "again"))
			require.NoError(t, to.CloseWithError(0x13, "again"))
			requireEnded(t, from, local)
		})
	}
}

// requireEnded checks that everything fails with the same error.
func requireEnded(t *testing.T, c Conn, want error) {
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

func TestContextsAndDeadlines(t *testing.T) {
	eachKind(t, func(t *testing.T, client, server Conn) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := client.AcceptStream(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = client.AcceptUniStream(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = client.OpenUniStreamSync(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = client.ReceiveDatagram(ctx)
		require.ErrorIs(t, err, context.Canceled)

		s, err := client.OpenStream()
		require.NoError(t, err)
		write(t, s, "x")
		require.NoError(t, s.SetReadDeadline(time.Now().Add(-time.Second)))
		_, err = s.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, s.SetWriteDeadline(time.Now().Add(-time.Second)))
		_, err = s.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, client.Context().Err())
	})
}

func TestStreamLimits(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			s := newServer(t, func(c *ListenConfig) { c.MaxIncomingStreams, c.MaxIncomingUniStreams = 3, 5 })
			client, server := s.connect(t, k)
			var open []SendStream
			for {
				w, err := client.OpenUniStream()
				if err != nil {
					require.Equal(t, ErrStreamLimit, err)
					break
				}
				write(t, w, "x")
				open = append(open, w)
			}
			require.LessOrEqual(t, len(open), 5)
			require.GreaterOrEqual(t, len(open), 1) // HTTP/3 has streams of its own

			for { // one less makes room for another
				r, err := server.AcceptUniStream(testContext(t))
				require.NoError(t, err)
				if r.ID() == open[0].ID() {
					open[0].Close()
					_, err = io.ReadAll(r)
					require.NoError(t, err)
					break
				}
			}
			w, err := client.OpenUniStreamSync(testContext(t))
			require.NoError(t, err)
			write(t, w, "y")

			var requests int
			for ; ; requests++ {
				str, err := client.OpenStream()
				if err != nil {
					require.Equal(t, ErrStreamLimit, err)
					break
				}
				write(t, str, "x")
			}
			require.Positive(t, requests)
			require.LessOrEqual(t, requests, 3)
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := sim.New(1, func(netip.Addr, netip.Addr) sim.Link { return sim.Link{Delay: time.Millisecond} })
				t.Cleanup(n.Close)
				at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
				s := newServer(t, func(c *ListenConfig) {
					c.IdleTimeout, c.KeepAlive = endsSoon, -1
					c.Sockets = func(*net.UDPAddr) ([]Socket, error) {
						conn, err := n.Listen(at)
						return []Socket{{Conn: conn}}, err
					}
				})
				client, server := s.connect(t, k, func(c *ClientConfig) {
					c.IdleTimeout, c.KeepAlive = endsSoon, -1
					c.ListenUDP = func(string, *net.UDPAddr) (UDPConn, error) { return n.Listen(at) }
				})
				for _, c := range []Conn{client, server} {
					requireLost(t, c, "no recent network activity")
					requireEnded(t, c, context.Cause(c.Context()))
				}
			})
		})
	}
}

// TestProbe probes a peer that does nothing but exist, and one whose process is gone.
func TestProbe(t *testing.T) {
	bothDirections(t, func(t *testing.T, from, _ Conn) {
		for range 3 {
			require.NoError(t, from.Probe(testContext(t)))
		}
	})
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run("gone "+k.String(), func(t *testing.T) {
			var socket *net.UDPConn
			_, server := newServer(t).connect(t, k, func(c *ClientConfig) {
				c.ListenUDP = func(network string, local *net.UDPAddr) (_ UDPConn, err error) {
					socket, err = net.ListenUDP(network, local)
					return socket, err
				}
			})
			require.NoError(t, socket.Close())
			var err error
			for err == nil { // the last packets of the client may still be on their way
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				err = server.Probe(ctx)
				cancel()
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, server.CloseWithError(0, ""))
			require.Error(t, server.Probe(t.Context()))
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
	eachKind(t, func(t *testing.T, client, server Conn) {
		require.NoError(t, server.CloseWithError(1, "x"+strings.Repeat("é", 5000)))
		<-client.Context().Done()
		require.Equal(t, &SessionError{Code: 1, Remote: true, Reason: "x" + strings.Repeat("é", 511)},
			context.Cause(client.Context()))
	})
}
