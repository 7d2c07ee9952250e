package metrics

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/networks"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

func TestNetworks(t *testing.T) {
	n := Networks{Table: networks.New(24, 48)}
	at := netip.MustParseAddrPort
	sample := report.Sample{RTT: 20 * time.Millisecond}
	sample.Source, sample.Destination = at("192.0.2.7:443"), at("198.51.100.1:5000")
	require.NoError(t, n.Sample(&sample))
	dns := report.Sample{RTT: 90 * time.Millisecond, DNS: new(report.DNS)}
	dns.Source = sample.Source
	require.NoError(t, n.Sample(&dns))
	ambiguous := report.Sample{RTT: 90 * time.Millisecond, Ambiguous: true}
	ambiguous.Source = sample.Source
	require.NoError(t, n.Sample(&ambiguous))
	require.NoError(t, n.Sample(reporttest.OneDirection()))
	p := report.Prefix{Prefix: netip.MustParsePrefix("2001:db8::/48")}
	p.RTT.Add(&report.Histogram{
		Count: 3, Min: 8 * time.Millisecond, Max: 12 * time.Millisecond, Width: 4 * time.Millisecond,
		Bins: []uint64{0, 0, 3},
	})
	part := p // of another VLAN
	part.VLAN, part.RTT = report.VLAN{ID: 5}, report.Histogram{}
	part.RTT.Add(&p.RTT)
	quiet := report.Prefix{Prefix: netip.MustParsePrefix("203.0.113.0/24")}
	require.NoError(t, n.Interval(&report.Interval{Prefixes: []report.Prefix{p, part, quiet}}))
	require.NoError(t, n.Flow(nil))
	require.NoError(t, n.Flush())
	list := n.Nearest(10)
	require.Len(t, list, 2)
	require.Equal(t, p.Prefix, list[0].Prefix)
	require.Equal(t, 10*time.Millisecond, list[0].Median)
	require.EqualValues(t, 6, list[0].Count)
	require.Equal(t, netip.MustParsePrefix("192.0.2.0/24"), list[1].Prefix)
	require.Equal(t, 20*time.Millisecond, list[1].Median)
}
