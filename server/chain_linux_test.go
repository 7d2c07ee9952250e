package server

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
	"sluice/internal/lab/labtest"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// TestChain sends media through three relays with the fast path. The kernel forwards it on each: what the relay before
// it has sent comes on a connection that it has dialed.
func TestChain(t *testing.T) {
	for _, scheme := range []string{"moqt", "https"} {
		t.Run(scheme, func(t *testing.T) {
			l, chain := newChain(t, scheme, 3, nil)
			send := publishOn(t, joinFrom(t, l.Publisher, urlOf(scheme, l.Relays[0].Device("up"))), "video")
			c := receiveOn(t, joinFrom(t, l.Subscribers[0], urlOf(scheme, l.Relays[2].Device("down"))), "video")
			forward(t, chain, 0, send, c)
		})
	}
}

// TestChainBack sends media from a relay to the one that it has dialed and announces its publishers to, and from there
// to the next one in the same way.
func TestChainBack(t *testing.T) {
	for _, scheme := range []string{"moqt", "https"} {
		t.Run(scheme, func(t *testing.T) {
			l, chain := newChain(t, scheme, 3, []moqt.Namespace{{"live"}})
			send := publishOn(t, joinFrom(t, l.Subscribers[0], urlOf(scheme, l.Relays[2].Device("down"))), "video")
			c := receiveOn(t, joinFrom(t, l.Publisher, urlOf(scheme, l.Relays[0].Device("up"))), "video")
			forward(t, chain, 0, send, c)
		})
	}
}

// newChain starts relays of which each has the one before it as its upstream relay. Each is connected before the next
// one starts: what it tells that one of the sizes of packets depends on what it was told itself.
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

// forward expects the kernels of a chain to send nearly everything, of groups from the first one on. It returns the
// first group that it has not sent. On a busy machine a relay may be late with what its kernel needs, and send more by
// itself: a later round has to do.
func forward(t *testing.T, chain []*Server, first uint64, send func(uint64, []byte), c streams) (next uint64) {
	t.Helper()
	next = first
	transfer := func() {
		for range 100 {
			payload := bytes.Repeat([]byte{byte(next)}, 5000)
			send(next, payload)
			require.True(t, bytes.HasSuffix(c.await(t), payload))
			next++
		}
	}
	transfer() // until windows and the sizes of packets have grown
	for range 20 {
		before := countersOf(chain)
		transfer()
		if allForward(t, before, countersOf(chain)) {
			return next
		}
	}
	require.FailNow(t, "the kernels do not send nearly everything")
	return next
}

func countersOf(chain []*Server) (all []media.Counters) {
	for _, s := range chain {
		all = append(all, s.loop.Stats().Counters)
	}
	return all
}

// allForward reports whether each kernel of a chain has sent nearly everything between two looks at the counters.
func allForward(t *testing.T, before, after []media.Counters) bool {
	t.Helper()
	enough := true
	for i := range after {
		all, kernel := after[i].Packets-before[i].Packets, after[i].ForwarderPackets-before[i].ForwarderPackets
		acks := after[i].TakenAcks - before[i].TakenAcks
		t.Logf("relay %d: the kernel sent %d of %d packets; %d ACKs were taken", i+1, kernel, all, acks)
		enough = enough && float64(kernel) > 0.9*float64(all) && after[i].TakenAcks > 0
	}
	return enough
}

func urlOf(scheme string, d *lab.Device) string {
	return scheme + "://" + netip.AddrPortFrom(d.IPv4.Addr(), 4443).String() + "/"
}

// joinFrom connects a client at a host.
func joinFrom(t *testing.T, from *lab.Host, url string) *session.Session {
	t.Helper()
	return joinURL(t, url, nil, func(string, *net.UDPAddr) (*net.UDPConn, error) {
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
