package transport

import (
	"cmp"
	"net"
	"net/netip"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

type otherAddr string

func (otherAddr) Network() string  { return "other" }
func (a otherAddr) String() string { return string(a) }

func TestSourceOf(t *testing.T) {
	udp := func(ip, zone string) net.Addr { return &net.UDPAddr{IP: net.ParseIP(ip), Port: 4443, Zone: zone} }
	for want, addrs := range map[string][]net.Addr{
		"192.0.2.1/32": {udp("192.0.2.1", ""), udp("::ffff:192.0.2.1", ""), otherAddr("192.0.2.1:1")},
		"2001:db8:0:7::/64": {
			udp("2001:db8:0:7::1", ""), udp("2001:db8:0:7:ffff::1", ""), otherAddr("[2001:db8:0:7::]:9"),
		},
		"fe80::/64":      {udp("fe80::1", "eth0"), udp("fe80::2", "eth1")},
		"invalid Prefix": {otherAddr("nowhere"), &net.UDPAddr{}},
	} {
		for _, a := range addrs {
			require.Equal(t, want, SourceOf(a).String(), a)
		}
	}
}

func TestSourcesWithoutLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*ListenConfig)
		own    []int
	}{
		"exempt": {
			func(c *ListenConfig) { c.Exempt = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, []int{0, 0, 0},
		},
		"no limit": {func(c *ListenConfig) { c.MaxConnectionsPerSource = -1 }, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			own := make(chan int, len(tt.own))
			s := newServer(t, tt.change, func(c *ListenConfig) {
				c.MaxConnectionsPerSource = cmp.Or(c.MaxConnectionsPerSource, 1)
				c.NewHooks = func(_ net.PacketConn, n int) quic.Hooks {
					own <- n
					return nil
				}
			})
			for _, want := range tt.own {
				s.connect(t, RawQUIC)
				require.Equal(t, want, <-own)
			}
		})
	}
}

// Many connections of a source make its clients prove their addresses. They still connect.
func TestBusySourcesAreValidated(t *testing.T) {
	s := newServer(t, func(c *ListenConfig) { c.MaxUnvalidated = 100_000 })
	addr := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}
	for range maxUnvalidatedPerSource - 1 {
		s.connect(t, RawQUIC)
	}
	require.False(t, s.sources.isSuspect(addr))
	s.connect(t, RawQUIC)
	require.True(t, s.sources.isSuspect(addr))
	require.False(t, s.sources.isSuspect(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}))
	s.connect(t, RawQUIC)
	s.connect(t, WebTransport)
}

// TestStreamsOfExemptSources opens more streams than other sources may.
func TestStreamsOfExemptSources(t *testing.T) {
	for name, tt := range map[string]struct {
		exempt []netip.Prefix
		want   error
	}{
		"exempt": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil},
		"other":  {[]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, ErrStreamLimit},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(c *ListenConfig) { c.Exempt = tt.exempt })
			client, _ := s.connect(t, RawQUIC)
			var err error
			for range defaultMaxIncomingStreams + 1 {
				if _, err = client.OpenStream(); err != nil {
					break
				}
			}
			require.Equal(t, tt.want, err)
		})
	}
}

// TestStreamsOfACrowd opens as many streams as a client may, alone and beside others of its source.
func TestStreamsOfACrowd(t *testing.T) {
	s := newServer(t)
	streams := func() (n int) {
		client, _ := s.connect(t, RawQUIC)
		for ; ; n++ {
			if _, err := client.OpenUniStream(); err != nil {
				require.Equal(t, ErrStreamLimit, err)
				return n
			}
		}
	}
	require.Equal(t, defaultMaxIncomingUniStreams, streams())
	for range maxUnvalidatedPerSource - 1 {
		s.connect(t, RawQUIC)
	}
	require.Equal(t, crowdUniStreams, streams())
}
