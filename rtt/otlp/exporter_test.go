package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"sluice/internal/webclient"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

var quiet = slog.New(slog.DiscardHandler)

// collector is a service that takes metrics.
type collector struct {
	*httptest.Server
	headers  chan http.Header
	requests chan *service.ExportMetricsServiceRequest
	answer   *service.ExportMetricsServiceResponse
}

func newCollector(t *testing.T) *collector {
	c := &collector{
		headers: make(chan http.Header, 100), requests: make(chan *service.ExportMetricsServiceRequest, 100),
		answer: new(service.ExportMetricsServiceResponse),
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/metrics" || err != nil {
			http.NotFound(w, r)
			return
		}
		request := new(service.ExportMetricsServiceRequest)
		if err := proto.Unmarshal(unzip(body), request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.headers <- r.Header
		c.requests <- request
		answer, _ := proto.Marshal(c.answer)
		_, _ = w.Write(answer)
	}))
	t.Cleanup(c.Close)
	return c
}

func unzip(b []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return []byte("not compressed")
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return []byte("cut")
	}
	return raw
}

func newExporter(t *testing.T, c *collector) *Exporter {
	e, err := New(Config{
		URL: c.URL, Headers: "api-key=a%20secret, x=1", Version: "v1", Host: "bng1",
		Interfaces: []string{"eth0", "eth1"}, Logger: quiet,
	})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close(t.Context()) })
	return e
}

// all returns the metrics of a request by name.
func all(t *testing.T, r *service.ExportMetricsServiceRequest) map[string]*metrics.Metric {
	require.Len(t, r.ResourceMetrics, 1)
	require.Len(t, r.ResourceMetrics[0].ScopeMetrics, 1)
	byName := make(map[string]*metrics.Metric)
	for _, m := range r.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		byName[m.Name] = m
	}
	return byName
}

// textOf returns attributes as text.
func textOf(attributes []*common.KeyValue) (s string) {
	for _, a := range attributes {
		s += a.Key + "=" + a.Value.GetStringValue() + " "
	}
	return s
}

func TestHistograms(t *testing.T) {
	c := newCollector(t)
	i := reporttest.Logarithmic()
	require.NoError(t, newExporter(t, c).Interval(i))
	header := <-c.headers
	require.Equal(t, "application/x-protobuf", header.Get("Content-Type"))
	require.Equal(t, "a secret", header.Get("Api-Key"))
	r := <-c.requests
	require.Equal(t, "service.name=sluice-rtt service.version=v1 host.name=bng1 sluice.interfaces=eth0,eth1 ",
		textOf(r.ResourceMetrics[0].Resource.Attributes))
	m := all(t, r)
	require.Len(t, m, 1, "nothing was counted besides RTTs")
	h := m["sluice.rtt"].GetExponentialHistogram()
	require.Equal(t, "s", m["sluice.rtt"].Unit)
	require.Equal(t, metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA, h.AggregationTemporality)
	require.Len(t, h.DataPoints, 1)
	p, want := h.DataPoints[0], &i.Prefixes[0].RTT
	require.Equal(t, "prefix=10.99.1.0/24 part=hosts ", textOf(p.Attributes))
	require.EqualValues(t, i.Start.UnixNano(), p.StartTimeUnixNano)
	require.EqualValues(t, i.End.UnixNano(), p.TimeUnixNano)
	require.EqualValues(t, 3, p.Count)
	require.Equal(t, []float64{0.002022, 2e-6, 0.00102}, []float64{p.GetSum(), p.GetMin(), p.GetMax()})
	require.EqualValues(t, 1, p.ZeroCount)
	require.Equal(t, want.End(0), p.ZeroThreshold)
	require.Equal(t, []uint64{1, 1}, p.Positive.BucketCounts)
	// A bucket with the index n ends at 2^(2^-scale) to the power of n+1.
	for n := range p.Positive.BucketCounts {
		end := math.Pow(2, math.Ldexp(float64(int(p.Positive.Offset)+n+1), -int(p.Scale)))
		require.InEpsilon(t, want.End(225+n), end, 1e-9)
	}
}

func TestCounters(t *testing.T) {
	c := newCollector(t)
	i := reporttest.Parts() // its RTTs are in linear bins
	require.NoError(t, newExporter(t, c).Interval(i))
	m := all(t, <-c.requests)
	const prefix = "prefix=10.99.1.0/24 peer=192.0.2.0/24 vlan=100.7 interface=eth1 protocol=TCP "
	var got []string
	for _, name := range []string{
		"sluice.rtt.io", "sluice.rtt.tcp.segments", "sluice.rtt.retransmissions", "sluice.rtt.ecn",
		"sluice.rtt.quic.loss",
	} {
		require.True(t, m[name].GetSum().IsMonotonic)
		for _, p := range m[name].GetSum().DataPoints {
			more := strings.TrimPrefix(textOf(p.Attributes), prefix)
			got = append(got, fmt.Sprintf("%s %d %s", name, p.GetAsInt(), more))
		}
	}
	require.Equal(t, []string{
		"sluice.rtt.io 300 network.io.direction=receive ", "sluice.rtt.io 80 network.io.direction=transmit ",
		"sluice.rtt.tcp.segments 3 network.io.direction=receive ",
		"sluice.rtt.tcp.segments 5 network.io.direction=transmit ",
		"sluice.rtt.retransmissions 1 network.io.direction=transmit ",
		"sluice.rtt.ecn 2 network.io.direction=receive state=capable ",
		"sluice.rtt.ecn 1 network.io.direction=receive state=marked ",
		"sluice.rtt.ecn 4 network.io.direction=transmit state=capable ",
		"sluice.rtt.ecn 1 network.io.direction=transmit state=marked ",
		"sluice.rtt.quic.loss 128 network.io.direction=transmit state=all ",
		"sluice.rtt.quic.loss 126 network.io.direction=transmit state=passed ",
		"sluice.rtt.quic.loss 4 network.io.direction=transmit state=reported ",
	}, got)
	require.NotContains(t, m, "sluice.rtt")
}

// TestParts sends the parts of a prefix's RTTs as data points of their own.
func TestParts(t *testing.T) {
	i := reporttest.Parts()
	for _, h := range []*report.Histogram{
		&i.Prefixes[0].RTT, &i.Prefixes[0].ByLoad.Idle, &i.Prefixes[0].ByLoad.Loaded, &i.Prefixes[0].PeerRTT,
		&i.Prefixes[0].PeerByLoad.Idle, &i.Prefixes[0].OneDirection,
	} {
		h.Width = 0
	}
	m := newMessage(i)
	m.add(&i.Prefixes[0])
	var parts []string
	for _, p := range m.rtts {
		parts = append(parts, p.Attributes[len(p.Attributes)-1].Value.GetStringValue())
	}
	require.Equal(t, []string{"hosts", "idle", "loaded", "peers", "peers-idle", "one-direction"}, parts)
}

// TestManyPrefixes spreads an interval over several messages.
func TestManyPrefixes(t *testing.T) {
	c := newCollector(t)
	i := reporttest.Logarithmic()
	for n := range 2 * prefixesPerMessage {
		p := i.Prefixes[0]
		p.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)
		i.Prefixes = append(i.Prefixes, p)
	}
	require.NoError(t, newExporter(t, c).Interval(i))
	var points int
	for _, want := range []int{prefixesPerMessage, prefixesPerMessage, 1} {
		n := len(all(t, <-c.requests)["sluice.rtt"].GetExponentialHistogram().DataPoints)
		require.Equal(t, want, n)
		points += n
	}
	require.Len(t, i.Prefixes, points)
}

func TestRefusals(t *testing.T) {
	c := newCollector(t)
	c.answer.PartialSuccess = &service.ExportMetricsPartialSuccess{RejectedDataPoints: 7, ErrorMessage: "delta"}
	body, err := newExporter(t, c).encode(newMessage(reporttest.Logarithmic()))
	require.NoError(t, err)
	for want, sent := range map[string][]byte{"status 400": nil, "the service rejects 7 data points": body} {
		var log strings.Builder
		e, err := New(Config{URL: c.URL, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		e.Add(sent)
		e.Close(t.Context())
		require.Regexp(t, "metrics are lost: the service refuses them.*"+want, log.String())
	}
	for status, want := range map[int]bool{
		400: true, 401: true, 404: true, 413: true, 500: true, 501: true,
		429: false, 502: false, 503: false, 504: false,
	} {
		require.Equal(t, want, isPermanent(&webclient.StatusError{Status: status}), status)
	}
	require.False(t, isPermanent(errors.New("connection refused")))
	require.False(t, isPermanent(context.DeadlineExceeded))
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"https://collector:4318": "https://collector:4318/v1/metrics", "http://h/": "http://h/v1/metrics",
		"https://h/otlp": "https://h/otlp", "https://h?key=1": "https://h/v1/metrics?key=1", "%": "%",
	} {
		require.Equal(t, want, withPath(text))
	}
	for _, text := range []string{
		"secret", "=secret", "a=%zsecret", "a=secret%0Ab", "a secret=b", strings.Repeat("a=1,", 3) + "b",
	} {
		_, err := New(Config{URL: "https://h", Headers: text})
		require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_HEADERS: must be")
		require.NotContains(t, err.Error(), "secret")
	}
	var many []string
	for n := range maxHeaders + 1 {
		many = append(many, fmt.Sprintf("h%d=1", n))
	}
	_, err := parseHeaders(strings.Join(many, ","))
	require.ErrorContains(t, err, "at most 16")
	_, err = New(Config{URL: "nowhere"})
	require.ErrorContains(t, err, "must be https or http")
}

// TestNames pins the JSON form of a message: users see its names.
func TestNames(t *testing.T) {
	i := reporttest.Logarithmic()
	i.Start, i.End = time.Unix(1, 0), time.Unix(2, 0)
	m := newMessage(i)
	i.Prefixes[0].RTT.Bins = []uint64{1}
	m.add(&i.Prefixes[0])
	b, err := protojson.Marshal(m.data(resourceOf("v1", "h", "")).ResourceMetrics[0].ScopeMetrics[0].Metrics[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"sluice.rtt","unit":"s",
		"description":"RTTs of the hosts of a prefix, their parts, and RTTs of the whole path.",
		"exponentialHistogram":{"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA","dataPoints":[{
		"attributes":[{"key":"prefix","value":{"stringValue":"10.99.1.0/24"}},
		{"key":"part","value":{"stringValue":"hosts"}}],
		"startTimeUnixNano":"1000000000","timeUnixNano":"2000000000","count":"3","sum":0.002022,"scale":5,
		"zeroCount":"1","positive":{"offset":-544},"min":0.000002,"max":0.00102,
		"zeroThreshold":7.62939453125e-06}]}}`, string(b))
}
