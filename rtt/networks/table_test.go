package networks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

const ms = time.Millisecond

func TestRTT(t *testing.T) {
	table, now := New(24, 48), time.Unix(1000, 0)
	table.now = func() time.Time { return now }
	at := netip.MustParseAddr
	for _, rtt := range []time.Duration{90 * ms, 10 * ms, 20 * ms} {
		table.Add(at("192.0.2.7"), rtt)
	}
	table.Add(at("2001:db8:1:2::3"), 5*ms)
	table.Set(netip.MustParsePrefix("198.51.100.0/24"), 30*ms, 7)
	for _, other := range []string{"203.0.113.0/25", "0.0.0.0/0", "203.0.113.1/24"} {
		table.Set(netip.MustParsePrefix(other), ms, 1)
	}
	table.Set(netip.MustParsePrefix("203.0.113.0/24"), 0, 0)
	now = now.Add(time.Minute)
	for address, want := range map[string]Network{
		"192.0.2.200":      {netip.MustParsePrefix("192.0.2.0/24"), 20 * ms, 3, time.Minute},
		"::ffff:192.0.2.1": {netip.MustParsePrefix("192.0.2.0/24"), 20 * ms, 3, time.Minute},
		"2001:db8:1::":     {netip.MustParsePrefix("2001:db8:1::/48"), 5 * ms, 1, time.Minute},
		"198.51.100.1":     {netip.MustParsePrefix("198.51.100.0/24"), 30 * ms, 7, time.Minute},
	} {
		n, known := table.RTT(at(address))
		require.True(t, known, address)
		require.Equal(t, want, n, address)
	}
	_, known := table.RTT(at("203.0.113.1"))
	require.False(t, known)
	nearest := table.Nearest(2)
	require.Len(t, nearest, 2)
	require.Equal(t, "2001:db8:1::/48", nearest[0].Prefix.String())
	require.Equal(t, "192.0.2.0/24", nearest[1].Prefix.String())
}

// TestLastRTTs lets a network move closer: old RTTs are forgotten.
func TestLastRTTs(t *testing.T) {
	table, host := New(24, 48), netip.MustParseAddr("192.0.2.7")
	for range 100 {
		table.Add(host, 100*ms)
	}
	for range kept {
		table.Add(host, 10*ms)
	}
	n, _ := table.RTT(host)
	require.Equal(t, 10*ms, n.Median)
	require.EqualValues(t, kept, n.Count)
}

// TestNetworksAreLimited adds more networks than the table holds.
func TestNetworksAreLimited(t *testing.T) {
	table := New(24, 48)
	host := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}) }
	for i := range maxNetworks + 10 {
		table.Add(host(i), ms)
		table.Add(host(0), ms)
	}
	require.Len(t, table.Nearest(1<<20), maxNetworks)
	_, known := table.RTT(host(0))
	require.True(t, known, "it was measured lately")
	_, known = table.RTT(host(1))
	require.False(t, known)
}

func TestHTTP(t *testing.T) {
	table := New(24, 48)
	table.now = func() time.Time { return time.Unix(1000, 0) }
	table.Add(netip.MustParseAddr("192.0.2.7"), 20*ms)
	get := func(query string) (int, string) {
		w := httptest.NewRecorder()
		table.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+query, nil))
		return w.Code, w.Body.String()
	}
	const network = `{"prefix":"192.0.2.0/24","median_ns":20000000,"count":1,"age_ns":0}`
	for query, want := range map[string]string{
		"":                    fmt.Sprintf("200 {\"networks\":[%s]}\n", network),
		"?to=192.0.2.1":       "200 " + network + "\n",
		"?to=192.0.2.0/24":    "200 " + network + "\n",
		"?to=198.51.100.1":    "404 no RTT to that network was measured\n",
		"?to=relay.example":   "400 to: \"relay.example\": must be an address or a prefix such as 192.0.2.0/24\n",
		"?to=2001:db8::1%25x": "404 no RTT to that network was measured\n",
	} {
		code, body := get(query)
		require.Equal(t, want, fmt.Sprint(code, " ", body), query)
	}
	_, body := get("")
	list, err := Parse([]byte(body))
	require.NoError(t, err)
	require.Equal(t, table.Nearest(10), list)
	_, err = Parse([]byte("<html>"))
	require.ErrorContains(t, err, "not an answer of sluice rtt")
}

// FuzzParse reads answers of a monitor as a relay does.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"networks":[{"prefix":"192.0.2.0/24","median_ns":20000000,"count":1,"age_ns":0}]}`))
	f.Add([]byte(`{"networks":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer testlimit.Start(t, len(body), 1000)()
		list, err := Parse(body)
		require.True(t, err == nil || list == nil)
		require.LessOrEqual(t, len(list), MaxAnswer)
	})
}
