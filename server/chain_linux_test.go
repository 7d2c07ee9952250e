package server

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/fastpathtest"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// skipShort skips a test with -short, as make race runs it.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the race detector does not see what the kernel shares, and makes user space late")
	}
}

// TestChainBack sends media from a relay to a relay that it has dialed and announces its publishers to, and from there
// to the next one in the same way. TestMeshForwards has the other direction.
func TestChainBack(t *testing.T) {
	skipShort(t)
	for _, scheme := range []string{"moqt", "https"} {
		t.Run(scheme, func(t *testing.T) {
			l, chain := newChain(t, scheme, 3, []moqt.Namespace{{"live"}})
			send := publishOn(t, joinFrom(t, l.Subscribers[0], urlOf(scheme, l.Relays[2].Device("down"))), "video")
			c := receiveOn(t, joinFrom(t, l.Publisher, urlOf(scheme, l.Relays[0].Device("up"))), "video")
			forward(t, chain, 0, send, c)
		})
	}
}

// newChain starts relays, each with the relay before it as its upstream relay. Each is connected before the next
// starts: the sizes of packets that it announces depend on the sizes that it was told.
func newChain(t *testing.T, scheme string, length int, announce []moqt.Namespace) (l *lab.Lab, chain []*Server) {
	t.Helper()
	l = labtest.New(t, lab.Topology{Relays: length, Subscribers: 1})
	for i, h := range l.Relays {
		var cfg Config
		if i > 0 {
			cfg.Upstream.Routes = []UpstreamRoute{{URLs: []string{urlOf(scheme, l.Relays[i-1].Device("up"))}}}
			cfg.Upstream.Transport.Insecure = true
			cfg.Upstream.Announce = announce
		}
		s := serveAt(t, h, cfg)
		if i > 0 {
			connected(t, s, 1)
		}
		chain = append(chain, s)
	}
	return l, chain
}

// forward expects the kernels of a chain to send groups, from the first one on, and each decline to have a reason that
// a busy machine may cause. It returns the first group that it has not sent.
func forward(t *testing.T, chain []*Server, first uint64, send func(uint64, []byte), c streams) (next uint64) {
	t.Helper()
	next = first
	transfer := func() {
		payload := bytes.Repeat([]byte{byte(next)}, 5000)
		send(next, payload)
		require.True(t, bytes.HasSuffix(c.await(t), payload))
		next++
	}
	for quiet := 0; quiet < 20; quiet++ { // until the sizes of packets are known
		require.Less(t, next, first+1000, "packets stay too large for their paths")
		before := looks(t, chain)
		transfer()
		for i, after := range looks(t, chain) {
			if after.Reasons["copy_too_large"] > before[i].Reasons["copy_too_large"] {
				quiet = 0
			}
		}
	}
	begin := looks(t, chain)
	for range 100 {
		before := looks(t, chain)
		transfer()
		for i, after := range looks(t, chain) {
			require.NoError(t, fastpathtest.Judge(before[i], after, fastpathtest.HeaderApart), "relay %d", i+1)
		}
	}
	for i, after := range looks(t, chain) {
		require.Greater(t, after.Reasons["copy_sent"], begin[i].Reasons["copy_sent"], "relay %d", i+1)
	}
	return next
}

// looks returns the counters of each relay.
func looks(t *testing.T, chain []*Server) (all []fastpathtest.Look) {
	t.Helper()
	for _, s := range chain {
		reasons, err := s.fastPath.Counts()
		require.NoError(t, err)
		all = append(all, fastpathtest.Look{Reasons: reasons, Media: s.loop.Stats().Counters})
	}
	return all
}

func urlOf(scheme string, d *lab.Device) string {
	return scheme + "://" + netip.AddrPortFrom(d.IPv4.Addr(), 4443).String() + "/"
}

// joinFrom connects a client at a host.
func joinFrom(t *testing.T, from *lab.Host, url string) *session.Session {
	t.Helper()
	return joinURL(t, url, nil, func(string, *net.UDPAddr) (transport.UDPConn, error) {
		return from.ListenUDP(netip.AddrPort{})
	})
}

// serveAt starts a server with the fast path at a host.
func serveAt(t *testing.T, h *lab.Host, cfg Config) *Server {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg.Listen, cfg.Transport.Certificate, cfg.FastPath.Mode = ":4443", &cert, FastPathOn
	var s *running
	require.NoError(t, h.Do(func() error {
		s = serve(t, cfg)
		return nil
	}))
	t.Cleanup(func() { s.end(t) })
	return s.Server
}

// TestPlacesOfOneSource expects half of the fast path's connections to be for others than the source that comes first.
func TestPlacesOfOneSource(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	s := serveAt(t, l.Relay, Config{FastPath: FastPathConfig{MaxConnections: 4}})
	for i, from := range []*lab.Host{l.Subscribers[0], l.Subscribers[0], l.Subscribers[0], l.Publisher} {
		joinFrom(t, from, urlOf("moqt", l.Relay.Facing(from)))
		await(t, "a session", func() bool { return len(s.Relay().Sessions()) > i })
	}
	var served []bool
	for _, status := range s.Relay().Sessions() {
		served = append(served, status.FastPath)
	}
	require.Equal(t, []bool{true, true, false, true}, served)
}

// TestFastPathDevices expects a relay that dials others to attach to all devices, because routes may lead there through
// any.
func TestFastPathDevices(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	one := l.Relay.Device("up").IPv4.Addr()
	for _, tt := range []struct {
		cfg    FastPathConfig
		listen netip.Addr
		want   int
	}{
		{FastPathConfig{}, one, 1},
		{FastPathConfig{}, netip.IPv6Unspecified(), 2},
		{FastPathConfig{Dials: true}, one, 2},
		{FastPathConfig{Dials: true, Devices: []string{"up"}}, one, 1},
	} {
		require.NoError(t, l.Relay.Do(func() error {
			devices, err := fastPathDevices(tt.cfg, tt.listen)
			require.Len(t, devices, tt.want, "%+v", tt)
			return err
		}))
	}
}
