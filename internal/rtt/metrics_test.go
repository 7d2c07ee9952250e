package rtt

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
)

// exposed are the lines of samples that Prometheus reads, without those of a histogram of all RTTs.
func exposed(t *testing.T, m *Metrics) string {
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
	m := NewMetrics()
	require.NoError(t, m.Sample(&exampleSample)) // 5.4 ms
	require.NoError(t, m.Sample(&exampleQUIC))   // 30 ms
	require.NoError(t, m.Sample(&exampleDNS))    // ambiguous: no RTT
	require.NoError(t, m.Flow(&exampleOpening))
	require.NoError(t, m.Flow(&exampleClosing))
	require.Equal(t, `sluice_rtt_dns_responses_total{rcode="NXDOMAIN"} 1
sluice_rtt_flow_events_total{event="closing",reason="flow timeout"} 1
sluice_rtt_flow_events_total{event="opening",reason="SYN-ACK"} 1
sluice_rtt_seconds_sum{method="spin",protocol="QUIC"} 0.03
sluice_rtt_seconds_count{method="spin",protocol="QUIC"} 1
sluice_rtt_seconds_sum{method="timestamp",protocol="TCP"} 0.005425439
sluice_rtt_seconds_count{method="timestamp",protocol="TCP"} 1
`, exposed(t, m))
}

func TestMetricsOfCounters(t *testing.T) {
	m := NewMetrics()
	m.counters = func() (Counters, error) {
		return Counters{
			Outcomes: []NamedCount{{"tcp", 7}}, Events: []NamedCount{{"rtts", 3}}, Flows: 2,
			Transports: []NamedTraffic{{"TCP", Traffic{7, 700}}}, ECN: []NamedTraffic{{"CE", Traffic{1, 40}}},
		}, nil
	}
	require.Equal(t, `sluice_rtt_ecn_packets_total{codepoint="CE"} 1
sluice_rtt_events_total{event="rtts"} 3
sluice_rtt_flow_table_entries 2
sluice_rtt_packets_total{outcome="tcp"} 7
sluice_rtt_protocol_bytes_total{protocol="TCP"} 700
`, exposed(t, m))
	m.counters = func() (Counters, error) { return Counters{}, errors.New("gone") }
	require.Empty(t, exposed(t, m), "what cannot be read is left out")
}

// Intervals add up, and prefixes without traffic for the timeout are dropped.
func TestMetricsOfPrefixes(t *testing.T) {
	m := NewMetrics()
	require.NoError(t, m.Interval(&exampleInterval))
	require.NoError(t, m.Interval(&exampleInterval))
	require.Equal(t, `sluice_rtt_prefix_bytes_total{direction="received",prefix="10.99.1.0/24"} 600
sluice_rtt_prefix_bytes_total{direction="received",prefix="::/0"} 0
sluice_rtt_prefix_bytes_total{direction="sent",prefix="10.99.1.0/24"} 160
sluice_rtt_prefix_bytes_total{direction="sent",prefix="::/0"} 120
`+prefixHistogram("10.99.1.0/24", 8, 0.052, map[string]int{"0.004": 2, "0.008": 6, "0.016": 8}), exposed(t, m))

	later := exampleInterval
	later.End = later.End.Add(later.Aggregation.Timeout)
	later.Prefixes = later.Prefixes[1:]
	require.NoError(t, m.Interval(&later))
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("::/0")}, slices.Collect(maps.Keys(m.prefixes)))
}

// prefixHistogram is the text of a histogram; buckets that are not given have as many as the one before.
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

// Everything goes everywhere, also when one of the sinks fails.
func TestTee(t *testing.T) {
	var a, b taken
	tee := Tee{&a, failing{}, &b}
	require.ErrorIs(t, tee.Sample(&exampleSample), errFull)
	require.ErrorIs(t, tee.Flow(&exampleOpening), errFull)
	require.ErrorIs(t, tee.Interval(&exampleInterval), errFull)
	require.ErrorIs(t, tee.Flush(), errFull)
	require.Equal(t, a, b)
	require.Len(t, a.samples, 1)
	require.Len(t, a.flows, 1)
	require.Len(t, a.intervals, 1)
	require.Equal(t, 1, a.flushed)
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Sample(*Sample) error     { return errFull }
func (failing) Flow(*FlowEvent) error    { return errFull }
func (failing) Interval(*Interval) error { return errFull }
func (failing) Flush() error             { return errFull }
