package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNetworkOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.0/24", "::ffff:192.0.2.7": "192.0.2.0/24", "2001:db8:1:2::3": "2001:db8:1::/48",
		"fe80::1%eth0": "fe80::/48",
	} {
		require.Equal(t, want, NetworkOf(netip.MustParseAddr(address)).String(), address)
	}
	require.Zero(t, NetworkOf(netip.Addr{}))
}

// network returns one of many networks.
func network(i int) netip.Prefix {
	return NetworkOf(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}))
}

// TestNearestNetworks knows more networks than a node tells others about.
func TestNearestNetworks(t *testing.T) {
	all := make(Networks)
	for i := range MaxNetworks + 10 {
		all[network(i)] = time.Duration(MaxNetworks+20-i) * time.Millisecond
	}
	nearest := all.Nearest()
	require.Len(t, nearest, MaxNetworks)
	require.Contains(t, nearest, network(MaxNetworks+9))
	require.NotContains(t, nearest, network(0))
	require.Equal(t, nearest, nearest.Nearest())

	m, err := decodeNetworks(encode(newNetworksMessage(state{}, Networks{network(0): 0, network(1): time.Hour})))
	require.NoError(t, err)
	require.Equal(t, map[netip.Prefix]uint32{network(0): 1, network(1): 10_000_000}, m.Micros)
}

func TestInvalidNetworks(t *testing.T) {
	many := make(map[netip.Prefix]uint32)
	for i := range MaxNetworks + 1 {
		many[network(i)] = 1
	}
	tooMany, err := json.Marshal(networksMessage{Micros: many})
	require.NoError(t, err)
	for want, text := range map[string]string{
		"number of networks":  string(tooMany),
		"must be an IPv4":     `{"us":{"192.0.2.0/25":1}}`,
		"192.0.2.7/24":        `{"us":{"192.0.2.7/24":1}}`,
		"0.0.0.0/0":           `{"us":{"0.0.0.0/0":1}}`,
		"::ffff:192.0.2.0":    `{"us":{"::ffff:192.0.2.0/120":1}}`,
		"invalid Prefix":      `{"us":{"":1}}`,
		"RTT in µs: 0":        `{"us":{"192.0.2.0/24":0}}`,
		"RTT in µs: 10000001": `{"us":{"192.0.2.0/24":10000001}}`,
	} {
		_, err := decodeNetworks([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// TestNetworksAreLimited lets many nodes tell as much as they may.
func TestNetworksAreLimited(t *testing.T) {
	b := newTable(nil)
	all := make(Networks)
	for i := range MaxNetworks {
		all[network(i)] = time.Millisecond
	}
	m := newNetworksMessage(state{Epoch: 1}, all)
	const nodes = maxAllNetworks/MaxNetworks + 3
	for i := range nodes {
		id := fmt.Sprint("n", i)
		b.near(id, &m, start)
		require.Equal(t, min(i*MaxNetworks, maxAllNetworks), b.networks, "the node is not known yet")
		b.meet(id, at(1, 0), start)
		b.near(id, &m, start)
		b.near(id, &m, start)
	}
	require.Equal(t, maxAllNetworks, b.networks)
	require.NotZero(t, b.refused)
	b.near("n0", &networksMessage{}, start)
	require.Equal(t, maxAllNetworks, b.networks, "a message of an earlier epoch")
	b.leave("n0", state{Epoch: 1})
	require.Equal(t, maxAllNetworks-MaxNetworks, b.networks)
	b.near("n0", &m, start)
	require.Equal(t, maxAllNetworks-MaxNetworks, b.networks, "the node has left")
	b.expire(start.Add(time.Hour), nobody)
	require.Zero(t, b.networks)
}

func TestNearer(t *testing.T) {
	at := func(id string, ms int, change func(*Cost)) Peer {
		p := Peer{ID: id, Cost: Cost{RTT: time.Duration(ms) * time.Millisecond}}
		if change != nil {
			change(&p.Cost)
		}
		return p
	}
	half := func(c *Cost) { c.Load = 0.5 }
	for name, tc := range map[string]struct {
		rtt    int
		self   func(*Cost)
		others []Peer
		want   string // "": none
	}{
		"nobody":                  {100, nil, nil, ""},
		"much nearer":             {100, nil, []Peer{at("b", 10, nil)}, "b"},
		"the nearest":             {100, nil, []Peer{at("b", 10, nil), at("c", 9, nil), at("d", 11, nil)}, "c"},
		"two alike":               {100, nil, []Peer{at("c", 10, nil), at("b", 10, nil), at("d", 10, nil)}, "b"},
		"half as far":             {40, nil, []Peer{at("b", 20, nil)}, "b"},
		"more than half":          {100, nil, []Peer{at("b", 51, nil)}, ""},
		"near enough":             {20, nil, []Peer{at("b", 1, nil)}, ""},
		"farther":                 {10, nil, []Peer{at("b", 100, nil)}, ""},
		"dear":                    {100, nil, []Peer{at("b", 10, func(c *Cost) { c.Price = 80 })}, ""},
		"a dear self":             {100, func(c *Cost) { c.Price = 80 }, []Peer{at("b", 60, nil)}, ""},
		"loaded":                  {100, nil, []Peer{at("b", 10, half), at("c", 15, nil)}, "c"},
		"loaded, and much nearer": {100, nil, []Peer{at("b", 10, half), at("c", 30, nil)}, "b"},
		"nearly full":             {500, nil, []Peer{at("b", 10, func(c *Cost) { c.Load = 0.75 })}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			best, ok := nearer(at("self", tc.rtt, tc.self), tc.others)
			require.Equal(t, tc.want != "", ok)
			require.Equal(t, tc.want, best.ID)
		})
	}
	// Whatever the load and the prices, two nodes do not send each other one client: it would have to be half as far
	// from each as from the other one.
	_, there := nearer(at("a", 100, nil), []Peer{at("b", 50, nil)})
	_, back := nearer(at("b", 50, func(c *Cost) { c.Price = MaxPrice }), []Peer{at("a", 100, nil)})
	require.True(t, there && !back)
}
