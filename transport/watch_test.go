package transport

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatcher(t *testing.T) {
	const yes, no = true, false
	for name, intervals := range map[string][]struct {
		packets uint64
		probes  bool
	}{
		"sends all the time":          {{10, no}, {1, no}, {2, no}, {30, no}},
		"has ended":                   {{10, no}, {0, yes}, {0, yes}, {0, yes}},
		"has ended after one packet":  {{10, no}, {1, no}, {0, yes}, {0, yes}},
		"has nothing to send":         {{10, no}, {0, yes}, {1, no}, {0, no}, {0, no}},
		"answers late":                {{10, no}, {0, yes}, {0, yes}, {2, no}, {0, yes}, {1, no}, {0, no}},
		"goes on":                     {{10, no}, {0, yes}, {10, no}, {0, yes}, {1, no}, {0, no}},
		"never sent":                  {{0, no}, {0, no}},
		"probes the other end itself": {{10, no}, {0, yes}, {1, no}, {0, no}, {1, no}, {0, no}, {1, no}, {0, no}},
	} {
		t.Run(name, func(t *testing.T) {
			var w watcher
			received := uint64(0)
			for i, interval := range intervals {
				received += interval.packets
				require.Equal(t, interval.probes, w.probes(received), "interval %d", i)
			}
		})
	}
}

// TestRestartIsNoticed has a server that ends without a word while it sends, and another one in its place. The client,
// which has nothing to send, learns of that by a stateless reset, long before its keep-alive and its idle timeout.
func TestRestartIsNoticed(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			cert, hash, err := DevCertificate()
			require.NoError(t, err)
			s := newServer(t, func(c *ListenConfig) { c.Certificate = &cert })
			s.hash = hash[:]
			client, server := s.connect(t, k, func(c *ClientConfig) {
				c.IdleTimeout, c.ProbeAfter = time.Hour, 10*time.Millisecond
			})
			for range 10 {
				require.NoError(t, server.SendDatagram([]byte("media")))
				_, err := client.ReceiveDatagram(testContext(t))
				require.NoError(t, err)
			}
			crash(t, s)
			awaitProbes(t, s.Addr())
			again := restart(t, s, &cert)
			defer again.Close()
			requireLost(t, client, "stateless reset")
		})
	}
}

// awaitProbes waits for more packets to an address than a client sends to acknowledge a few.
func awaitProbes(t *testing.T, addr net.Addr) {
	t.Helper()
	c, err := net.ListenUDP("udp", addr.(*net.UDPAddr))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	for range 50 {
		_, err := c.Read(make([]byte, 2000))
		require.NoError(t, err, "the client sends nothing any more")
	}
}

// crash ends a server that cannot tell its clients any more.
func crash(t *testing.T, s *testServer) {
	t.Helper()
	for _, pc := range s.PacketConns() {
		require.NoError(t, pc.Close())
	}
	_, err := s.Accept(testContext(t))
	require.ErrorIs(t, err, ErrListenerClosed)
	require.ErrorIs(t, err, net.ErrClosed)
	s.Close()
}

// restart starts a server with the address and the certificate of one that has ended.
func restart(t *testing.T, s *testServer, cert *tls.Certificate) *Listener {
	t.Helper()
	l, err := Listen(s.Addr().String(), ListenConfig{Certificate: cert, Protocols: []string{testProtocol}})
	require.NoError(t, err)
	return l
}
