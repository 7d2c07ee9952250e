package transport

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

func TestListenErrors(t *testing.T) {
	s := newServer(t)
	for want, addr := range map[string]string{
		"address already in use": s.Addr().String(),
		"missing port":           "127.0.0.1",
		"invalid port":           "127.0.0.1:99999",
	} {
		_, err := Listen(addr, s.cfg)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "listen on "+addr)
	}
}

// countedIDs are connection IDs that begin with 7.
type countedIDs struct {
	length int
	made   *atomic.Int64
}

func (c countedIDs) ConnectionIDLen() int { return c.length }

func (c countedIDs) GenerateConnectionID() (quic.ConnectionID, error) {
	id := binary.BigEndian.AppendUint64(nil, 7<<56|uint64(c.made.Add(1)))
	return quic.ConnectionIDFromBytes(id), nil
}

// TestConnectionIDs has clients send to connection IDs of the application's, on a socket of the application's.
func TestConnectionIDs(t *testing.T) {
	var made, sockets atomic.Int64
	s := newServer(t, func(c *ListenConfig) {
		c.Sockets = func(local *net.UDPAddr) ([]Socket, error) {
			sockets.Add(1)
			udp, err := net.ListenUDP("udp", local)
			return []Socket{{Conn: udp, ConnectionIDs: countedIDs{ConnectionIDLength, &made}}}, err
		}
	})
	for _, k := range []Kind{RawQUIC, WebTransport} {
		before := made.Load()
		s.connect(t, k)
		require.Greater(t, made.Load(), before)
	}
	require.EqualValues(t, 1, sockets.Load())

	wrong, opened := s.cfg, []Socket(nil)
	wrong.Sockets = func(local *net.UDPAddr) ([]Socket, error) {
		for range 2 {
			udp, err := net.ListenUDP("udp", local)
			require.NoError(t, err)
			opened = append(opened, Socket{Conn: udp})
		}
		opened[1].ConnectionIDs = countedIDs{4, &made}
		return opened, nil
	}
	_, err := Listen("127.0.0.1:0", wrong)
	require.ErrorContains(t, err, "ConnectionIDs: 4 bytes: must be 8")
	for _, o := range opened {
		require.ErrorIs(t, o.Conn.Close(), net.ErrClosed)
	}
}

// TestSockets has a listener with two sockets. They are at different ports, so that the test chooses between them.
func TestSockets(t *testing.T) {
	var woken [2]atomic.Int64
	conns := make(chan net.PacketConn, 10)
	s := newServer(t, func(c *ListenConfig) {
		c.MaxConnections = 4
		c.Sockets = func(local *net.UDPAddr) (all []Socket, err error) {
			for i := range woken {
				udp, err := net.ListenUDP("udp", local)
				require.NoError(t, err)
				all = append(all, Socket{Conn: udp, Woken: func() { woken[i].Add(1) }})
			}
			return all, nil
		}
		c.Coalesce = func(int) func() time.Duration { return func() time.Duration { return 0 } }
		c.NewHooks = func(pc net.PacketConn, _ int) quic.Hooks {
			conns <- pc
			return nil
		}
	})
	sockets := s.PacketConns()
	require.Len(t, sockets, len(woken))
	require.Equal(t, sockets[0].LocalAddr(), s.Addr())
	require.Equal(t, s.endpoints[0].tr.TokenGeneratorKey, s.endpoints[1].tr.TokenGeneratorKey)
	dial := func(i int, scheme string) (Conn, error) {
		return Dial(testContext(t), scheme+"://"+sockets[i].LocalAddr().String()+"/",
			ClientConfig{Protocols: []string{testProtocol}, CertificateSHA256: s.hash})
	}
	for _, scheme := range []string{"moqt", "https"} {
		for i := range sockets {
			client, err := dial(i, scheme)
			require.NoError(t, err)
			server, err := s.Accept(testContext(t))
			require.NoError(t, err)
			require.Equal(t, sockets[i], <-conns)
			require.NoError(t, client.SendDatagram([]byte("x")))
			_, err = server.ReceiveDatagram(testContext(t))
			require.NoError(t, err)
			require.Equal(t, sockets[i].LocalAddr(), server.LocalAddr())
			require.NotZero(t, woken[i].Load())
		}
	}
	for i := range sockets { // they share the limit
		_, err := dial(i, "moqt")
		require.ErrorContains(t, err, "CONNECTION_REFUSED")
	}

	// A packet for a connection that has ended is answered by the same stateless reset, whichever socket gets it.
	packet := append([]byte("\x43"), make([]byte, 60)...)
	var tokens [2]string
	for i := range sockets {
		c, err := net.DialUDP("udp", nil, sockets[i].LocalAddr().(*net.UDPAddr))
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write(packet)
		require.NoError(t, err)
		b := make([]byte, 100)
		n, err := c.Read(b)
		require.NoError(t, err)
		tokens[i] = string(b[n-16 : n])
	}
	require.Equal(t, tokens[0], tokens[1])
}

func TestListenerClose(t *testing.T) {
	s := newServer(t)
	accept := make(chan error)
	go func() {
		_, err := s.Accept(context.Background())
		accept <- err
	}()
	for _, k := range []Kind{RawQUIC, WebTransport} {
		_, err := s.dial(t, k)
		require.NoError(t, err)
		if k == RawQUIC {
			require.NoError(t, <-accept)
		}
	}
	client, server := s.connect(t, RawQUIC) // of two that wait
	require.NoError(t, s.Close())
	for _, c := range []Conn{client, server} {
		<-c.Context().Done()
		require.Zero(t, context.Cause(c.Context()).(*SessionError).Code)
	}
	_, err := s.Accept(context.Background())
	require.Equal(t, ErrListenerClosed, err)
	_ = s.Close()

	again, err := Listen(s.Addr().String(), s.cfg)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestAllInterfaces(t *testing.T) {
	cert, hash, err := DevCertificate()
	require.NoError(t, err)
	l, err := Listen(":0", ListenConfig{Certificate: &cert, Protocols: []string{testProtocol}})
	require.NoError(t, err)
	defer l.Close()
	s := &testServer{Listener: l, hash: hash[:]}
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		c, err := Dial(testContext(t), "moqt://"+host+":"+s.port(),
			ClientConfig{Protocols: []string{testProtocol}, CertificateSHA256: s.hash})
		require.NoError(t, err)
		require.NoError(t, c.CloseWithError(0, ""))
	}
}

// TestMaxConnections has limits of all connections, and of those from a source.
func TestMaxConnections(t *testing.T) {
	for name, change := range map[string]func(*ListenConfig){
		"all":        func(c *ListenConfig) { c.MaxConnections = 2 },
		"per source": func(c *ListenConfig) { c.MaxConnectionsPerSource = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, change)
			first, _ := s.connect(t, RawQUIC)
			s.connect(t, WebTransport)
			for _, k := range []Kind{RawQUIC, WebTransport} {
				_, err := s.dial(t, k)
				require.ErrorContains(t, err, "CONNECTION_REFUSED")
			}
			total, source := s.Refused()
			require.Equal(t, name == "all", total > 0)
			require.Equal(t, name == "per source", source > 0)
			require.NoError(t, first.CloseWithError(0, ""))
			require.Eventually(t, func() bool { return s.conns.Load() < 2 }, time.Minute, time.Millisecond)
			s.connect(t, WebTransport)
		})
	}
}

func TestRetry(t *testing.T) {
	always := newServer(t, func(c *ListenConfig) { c.MaxUnvalidated = -1 })
	for _, k := range []Kind{RawQUIC, WebTransport} {
		client, server := always.connect(t, k)
		require.NoError(t, client.SendDatagram([]byte("x")))
		_, err := server.ReceiveDatagram(testContext(t))
		require.NoError(t, err)
	}
}

// A client that opens connections and never completes them is forgotten.
func TestIncompleteHandshake(t *testing.T) {
	inMemory(t, func(*ListenConfig) {}, func(t *testing.T, s *testServer) {
		s.mute.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), endsSoon/2)
		defer cancel()
		_, err := Dial(ctx, s.url(RawQUIC), ClientConfig{Protocols: []string{testProtocol}, ListenUDP: s.listenUDP})
		require.Error(t, err)
		require.EqualValues(t, 1, s.conns.Load())
		time.Sleep(endsSoon)
		require.Zero(t, s.conns.Load())
		s.mute.Store(false)
		s.connect(t, RawQUIC)
	})
}

// Sessions that nobody accepts must not keep others from being accepted when they have ended.
func TestUnacceptedSessionEnds(t *testing.T) {
	s := newServer(t)
	for _, k := range []Kind{RawQUIC, WebTransport} {
		c, err := s.dial(t, k)
		require.NoError(t, err)
		require.NoError(t, c.CloseWithError(0, ""))
	}
	require.Eventually(t, func() bool { return s.conns.Load() == 0 }, time.Minute, time.Millisecond)
	s.connect(t, RawQUIC)
}
