package metrics

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// exposed returns the lines that Prometheus reads, without comments and the buckets of all RTTs.
func exposed(t *testing.T, m *Collector) string {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, answer.Code)
	var lines []string
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "sluice_rtt_seconds_bucket") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestMetrics(t *testing.T) {
	m := New(report.Keys{})
	require.NoError(t, m.Sample(reporttest.TCP()))  // 5.4 ms
	require.NoError(t, m.Sample(reporttest.QUIC())) // 30 ms
	require.NoError(t, m.Sample(reporttest.DNS()))  // ambiguous: no RTT
	require.NoError(t, m.Sample(reporttest.STUN())) // 9 ms
	ambiguous := reporttest.STUN()
	ambiguous.Ambiguous = true
	require.NoError(t, m.Sample(ambiguous))
	require.NoError(t, m.Sample(reporttest.OneDirection()))
	require.NoError(t, m.Flow(reporttest.Opening()))
	require.NoError(t, m.Flow(reporttest.Closing()))
	require.Equal(t, `sluice_rtt_dns_responses_total{rcode="NXDOMAIN"} 1
sluice_rtt_flow_events_total{event="closing",reason="flow timeout"} 1
sluice_rtt_flow_events_total{event="opening",reason="SYN-ACK"} 1
sluice_rtt_seconds_sum{method="query",protocol="STUN"} 0.009
sluice_rtt_seconds_count{method="query",protocol="STUN"} 1
sluice_rtt_seconds_sum{method="spin",protocol="QUIC"} 0.03
sluice_rtt_seconds_count{method="spin",protocol="QUIC"} 1
sluice_rtt_seconds_sum{method="timestamp",protocol="TCP"} 0.005425439
sluice_rtt_seconds_count{method="timestamp",protocol="TCP"} 1
`, exposed(t, m))
}

func TestMetricsOfCounters(t *testing.T) {
	m := New(report.Keys{})
	m.counters = func() (report.Counters, error) {
		return report.Counters{
			Outcomes: []report.NamedCount{{Name: "tcp", Count: 7}},
			Events:   []report.NamedCount{{Name: "rtts", Count: 3}}, Flows: 2, FlowLimit: 8,
			Transports: []report.NamedTraffic{{Name: "TCP", Traffic: report.Traffic{Packets: 7, Bytes: 700}}},
			ECN:        []report.NamedTraffic{{Name: "CE", Traffic: report.Traffic{Packets: 1, Bytes: 40}}},
		}, nil
	}
	require.Equal(t, `sluice_rtt_ecn_packets_total{codepoint="CE"} 1
sluice_rtt_events_total{event="rtts"} 3
sluice_rtt_flow_table_entries 2
sluice_rtt_flow_table_limit 8
sluice_rtt_packets_total{outcome="tcp"} 7
sluice_rtt_protocol_bytes_total{protocol="TCP"} 700
`, exposed(t, m))
	m.counters = func() (report.Counters, error) { return report.Counters{}, errors.New("gone") }
	require.Empty(t, exposed(t, m), "what cannot be read is left out")
}

// Intervals add up, and prefixes without traffic for the timeout are dropped.
func TestMetricsOfPrefixes(t *testing.T) {
	m := New(report.Keys{})
	require.NoError(t, m.Interval(reporttest.Interval()))
	require.NoError(t, m.Interval(reporttest.Interval()))
	require.Equal(t, `sluice_rtt_prefix_bytes_total{direction="received",prefix="10.99.1.0/24"} 600
sluice_rtt_prefix_bytes_total{direction="received",prefix="::/0"} 0
sluice_rtt_prefix_bytes_total{direction="sent",prefix="10.99.1.0/24"} 160
sluice_rtt_prefix_bytes_total{direction="sent",prefix="::/0"} 120
sluice_rtt_prefix_ecn_packets_total{direction="received",prefix="10.99.1.0/24",state="capable"} 4
sluice_rtt_prefix_ecn_packets_total{direction="received",prefix="10.99.1.0/24",state="marked"} 2
sluice_rtt_prefix_ecn_packets_total{direction="received",prefix="::/0",state="capable"} 0
sluice_rtt_prefix_ecn_packets_total{direction="received",prefix="::/0",state="marked"} 0
sluice_rtt_prefix_ecn_packets_total{direction="sent",prefix="10.99.1.0/24",state="capable"} 8
sluice_rtt_prefix_ecn_packets_total{direction="sent",prefix="10.99.1.0/24",state="marked"} 2
sluice_rtt_prefix_ecn_packets_total{direction="sent",prefix="::/0",state="capable"} 0
sluice_rtt_prefix_ecn_packets_total{direction="sent",prefix="::/0",state="marked"} 0
sluice_rtt_prefix_quic_loss_packets_total{direction="sent",prefix="10.99.1.0/24",state="all"} 256
sluice_rtt_prefix_quic_loss_packets_total{direction="sent",prefix="10.99.1.0/24",state="passed"} 252
sluice_rtt_prefix_quic_loss_packets_total{direction="sent",prefix="10.99.1.0/24",state="reported"} 8
sluice_rtt_prefix_retransmissions_total{direction="received",prefix="10.99.1.0/24"} 0
sluice_rtt_prefix_retransmissions_total{direction="received",prefix="::/0"} 0
sluice_rtt_prefix_retransmissions_total{direction="sent",prefix="10.99.1.0/24"} 2
sluice_rtt_prefix_retransmissions_total{direction="sent",prefix="::/0"} 0
`+prefixHistogram("10.99.1.0/24", 8, 0.052, map[string]int{"0.004": 2, "0.008": 6, "0.016": 8})+
		`sluice_rtt_prefix_tcp_segments_total{direction="received",prefix="10.99.1.0/24"} 6
sluice_rtt_prefix_tcp_segments_total{direction="received",prefix="::/0"} 0
sluice_rtt_prefix_tcp_segments_total{direction="sent",prefix="10.99.1.0/24"} 10
sluice_rtt_prefix_tcp_segments_total{direction="sent",prefix="::/0"} 0
sluice_rtt_prefixes 2
`, exposed(t, m))

	later := *reporttest.Interval()
	later.End = later.End.Add(later.Aggregation.Timeout)
	later.Prefixes = later.Prefixes[1:]
	require.NoError(t, m.Interval(&later))
	require.Equal(t, []string{"::/0"}, slices.Collect(maps.Keys(m.prefixes)))
}

// Losses that are reported in an interval in which no block of packets ends are counted as the others are.
func TestReportsWithoutBlock(t *testing.T) {
	m, second := New(report.Keys{}), reporttest.Interval()
	second.Prefixes[0].Sent.QUIC = report.Loss{Reported: 3}
	require.NoError(t, errors.Join(m.Interval(reporttest.Interval()), m.Interval(second)))
	require.Contains(t, exposed(t, m), `sent",prefix="10.99.1.0/24",state="reported"} 7`)
}

// quietInterval returns an interval of a minute, after so many others. The kernel forgets prefixes sooner.
func quietInterval(minute int, prefixes ...report.Prefix) *report.Interval {
	end := reporttest.Time.Add(time.Duration(minute) * time.Minute)
	return &report.Interval{
		Aggregation: &report.Aggregation{Every: time.Minute, Timeout: 30 * time.Second},
		Start:       end.Add(-time.Minute), End: end, Prefixes: prefixes,
	}
}

// The counters of a prefix go on after some quiet intervals, also if these are longer than the timeout.
func TestQuietPrefixes(t *testing.T) {
	m := New(report.Keys{})
	p := report.Prefix{
		Prefix: netip.MustParsePrefix("192.0.2.0/24"), Sent: report.PrefixTraffic{Retransmissions: 1},
	}
	const counter = `sluice_rtt_prefix_retransmissions_total{direction="sent",prefix="192.0.2.0/24"} `
	require.NoError(t, m.Interval(quietInterval(0, p)))
	for minute := 1; minute < quietIntervals; minute++ {
		require.NoError(t, m.Interval(quietInterval(minute)))
	}
	require.NoError(t, m.Interval(quietInterval(quietIntervals, p)))
	require.Contains(t, exposed(t, m), counter+"2\n")
	for minute := 1; minute <= quietIntervals; minute++ {
		require.NoError(t, m.Interval(quietInterval(quietIntervals+minute)))
	}
	require.Empty(t, m.prefixes)
}

// Of the prefixes that the kernel has forgotten, those that were seen last are kept. Others are not among these.
func TestQuietPrefixesAreLimited(t *testing.T) {
	m := New(report.Keys{})
	prefixes := make([]report.Prefix, maxQuiet)
	for n := range prefixes {
		prefixes[n].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)
	}
	first := report.Prefix{Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	active := report.Prefix{Prefix: netip.MustParsePrefix("198.51.100.0/24")}
	require.NoError(t, m.Interval(quietInterval(0, first)))
	require.NoError(t, m.Interval(quietInterval(1, prefixes...)))
	require.Len(t, m.prefixes, maxQuiet+1)
	require.Contains(t, exposed(t, m), "sluice_rtt_prefixes 16384\n", "the first one is forgotten")
	require.NoError(t, m.Interval(quietInterval(2, active)))
	require.Contains(t, exposed(t, m), "sluice_rtt_prefixes 1\n")
	require.Len(t, m.prefixes, maxQuiet+1)
	require.NotContains(t, m.prefixes, first.Label())
	require.Contains(t, m.prefixes, prefixes[0].Label())
	require.Contains(t, m.prefixes, active.Label())
}

// Labels are the keys of aggregates, and parts of RTTs have a metric of their own.
func TestMetricsOfParts(t *testing.T) {
	i := reporttest.Parts()
	m := New(i.Aggregation.By)
	require.NoError(t, errors.Join(m.Interval(i), m.Interval(i)))
	text := exposed(t, m)
	const labels = `interface="eth1",%speer="192.0.2.0/24",prefix="10.99.1.0/24",protocol="TCP",vlan="100.7"`
	require.Contains(t, text, "sluice_rtt_prefix_retransmissions_total{"+
		`direction="sent",`+fmt.Sprintf(labels, "")+"} 2\n")
	require.Contains(t, text, "sluice_rtt_prefix_rtt_seconds_count{"+fmt.Sprintf(labels, "")+"} 4\n")
	for part, count := range map[string]int{
		"idle": 2, "loaded": 2, "peers": 2, "peers-idle": 2, "one-direction": 2,
	} {
		require.Contains(t, text, fmt.Sprintf("sluice_rtt_prefix_part_rtt_seconds_count{%s} %d\n",
			fmt.Sprintf(labels, fmt.Sprintf("part=%q,", part)), count))
	}
	require.NotContains(t, text, "peers-loaded")
}

// prefixHistogram is the text of a histogram; buckets that are not given have as many as the bucket below.
func prefixHistogram(prefix string, count int, sum float64, buckets map[string]int) string {
	var b strings.Builder
	below := 0
	for _, bound := range []string{"0.004", "0.008", "0.016", "0.032", "0.064", "0.128", "0.256", "0.512"} {
		if n, ok := buckets[bound]; ok {
			below = n
		}
		fmt.Fprintf(&b, "sluice_rtt_prefix_rtt_seconds_bucket{prefix=%q,le=%q} %d\n", prefix, bound, below)
	}
	fmt.Fprintf(&b, "sluice_rtt_prefix_rtt_seconds_bucket{prefix=%q,le=\"+Inf\"} %d\n", prefix, count)
	fmt.Fprintf(&b, "sluice_rtt_prefix_rtt_seconds_sum{prefix=%q} %v\n", prefix, sum)
	fmt.Fprintf(&b, "sluice_rtt_prefix_rtt_seconds_count{prefix=%q} %d\n", prefix, count)
	return b.String()
}

func TestBuckets(t *testing.T) {
	h := report.Histogram{Count: 4, Max: time.Second, Sum: 1004500 * time.Microsecond, Width: time.Millisecond}
	h.Bins = make([]uint64, report.LinearBins)
	h.Bins[0], h.Bins[1], h.Bins[3], h.Bins[report.LinearBins-1] = 1, 1, 1, 1
	require.Equal(t, map[float64]uint64{
		0.001: 1, 0.002: 2, 0.004: 3, 0.008: 3, 0.016: 3, 0.032: 3, 0.064: 3, 0.128: 3,
	}, buckets(&h), "the last bin has no bound")
}

// Logarithmic bins are the buckets of a native histogram, and every 32 of them a classic one.
func TestNativeHistogram(t *testing.T) {
	i := reporttest.Logarithmic()
	var m dto.Metric
	desc := newPrefixDescs(report.Keys{}).rtts
	require.NoError(t, newPrefixHistogram(desc, &i.Prefixes[0].RTT, []string{"10.99.1.0/24"}).Write(&m))
	h := m.GetHistogram()
	require.EqualValues(t, 5, h.GetSchema())
	require.EqualValues(t, 1, h.GetZeroCount())
	require.Len(t, h.PositiveSpan, 1)
	// Bucket -319 ends at 2^(-319/32) s, which is 0.998 ms.
	require.EqualValues(t, -319, h.PositiveSpan[0].GetOffset())
	require.Equal(t, []int64{1, 0}, h.PositiveDelta, "each as the difference from the one before")
	require.Len(t, h.Bucket, 21)
	require.Equal(t, 1./(1<<17), h.Bucket[0].GetUpperBound())
	require.EqualValues(t, 1, h.Bucket[7].GetCumulativeCount(), "up to 2^-10 s")
	require.EqualValues(t, 3, h.Bucket[8].GetCumulativeCount())
	require.EqualValues(t, 8, h.Bucket[20].GetUpperBound())
}
