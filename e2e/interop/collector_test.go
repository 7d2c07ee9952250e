package interop

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"sluice/internal/thorough"
)

// collectorConfig has the collector send on what it gets, as it is, and summed up. Retries are off: the test fails
// instead. Placeholders are the port that it listens at, and the test's service.
const collectorConfig = `
receivers:
  otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}
processors:
  deltatocumulative: {}
exporters:
  otlp_http/delta: {endpoint: "%[2]s/delta", compression: none, retry_on_failure: {enabled: false}}
  otlp_http/sum: {endpoint: "%[2]s/sum", compression: none, retry_on_failure: {enabled: false}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics/delta: {receivers: [otlp], exporters: [otlp_http/delta]}
    metrics/sum: {receivers: [otlp], processors: [deltatocumulative], exporters: [otlp_http/sum]}
`

// receiver keeps the metrics that the collector sends on, by the first part of the path.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex // guards what follows
	got  map[string][]*otlp.Metric
	errs []error
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: make(map[string][]*otlp.Metric)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		request := new(service.ExportMetricsServiceRequest)
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.errs = append(r.errs, err)
		}
		pipeline, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		for _, resource := range request.ResourceMetrics {
			for _, scope := range resource.ScopeMetrics {
				r.got[pipeline] = append(r.got[pipeline], scope.Metrics...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// series tells data points of a histogram apart.
type series struct{ prefix, part string }

// points returns the data points of a pipeline's histograms, by the ends of their intervals.
func (r *receiver) points(t *testing.T, pipeline string, as otlp.AggregationTemporality) (
	all map[series]map[uint64]*otlp.ExponentialHistogramDataPoint,
) {
	all = make(map[series]map[uint64]*otlp.ExponentialHistogramDataPoint)
	for _, m := range r.got[pipeline] {
		if m.Name != "sluice.rtt" {
			continue
		}
		require.Equal(t, "s", m.Unit)
		h := m.GetExponentialHistogram()
		require.Equal(t, as, h.GetAggregationTemporality())
		for _, p := range h.DataPoints {
			var s series
			for _, a := range p.Attributes {
				switch a.Key {
				case "prefix":
					s.prefix = a.Value.GetStringValue()
				case "part":
					s.part = a.Value.GetStringValue()
				}
			}
			if all[s] == nil {
				all[s] = make(map[uint64]*otlp.ExponentialHistogramDataPoint)
			}
			require.NotContains(t, all[s], p.TimeUnixNano)
			all[s][p.TimeUnixNano] = p
		}
	}
	return all
}

// distribution is what JSON lines say of the RTTs of an interval.
type distribution struct {
	Count       uint64        `json:"count_rtt"`
	Min         time.Duration `json:"min_rtt"`
	Mean        time.Duration `json:"mean_rtt"`
	Max         time.Duration `json:"max_rtt"`
	Exponential struct {
		Scale         int32   `json:"scale"`
		ZeroCount     uint64  `json:"zero_count"`
		ZeroThreshold float64 `json:"zero_threshold"`
		Positive      struct {
			Offset int32    `json:"offset"`
			Counts []uint64 `json:"bucket_counts"`
		} `json:"positive"`
	} `json:"exponential_histogram"`
}

// distributions reads JSON lines.
func distributions(t *testing.T, lines io.Reader) map[series]map[uint64]distribution {
	all := make(map[series]map[uint64]distribution)
	for s := bufio.NewScanner(lines); s.Scan(); {
		var line struct {
			Timestamp uint64 `json:"timestamp"`
			Prefix    string `json:"ip_prefix"`
			distribution
			Parts map[string]distribution `json:"parts"`
		}
		require.NoError(t, json.Unmarshal(s.Bytes(), &line))
		if line.Parts == nil {
			line.Parts = make(map[string]distribution)
		}
		line.Parts["hosts"] = line.distribution
		for part, d := range line.Parts {
			if d.Count == 0 {
				continue
			}
			key := series{line.Prefix, part}
			if all[key] == nil {
				all[key] = make(map[uint64]distribution)
			}
			all[key][line.Timestamp] = d
		}
	}
	return all
}

// buckets returns how many RTTs are in which bucket of a scale that is at most the buckets'.
func buckets(from, to, offset int32, counts []uint64) map[int32]uint64 {
	all := make(map[int32]uint64)
	for i, n := range counts {
		if n > 0 {
			all[(offset+int32(i))>>(from-to)] += n
		}
	}
	return all
}

// TestCollector sends RTTs through the OpenTelemetry Collector. Its histograms are those that the monitor writes as
// JSON, and their sums the sums of these.
func TestCollector(t *testing.T) {
	program := client(t, "otelcol")
	needsKernel(t)
	r := newReceiver(t)
	collector, address := startCollector(t, program, collectorConfig, r.URL)
	var out bytes.Buffer
	monitor := start(t, nil, &out, "sluice-rtt", "--pcap", writeTraffic(t), "--all", "--rate-limit", "0",
		"--aggregate", "5", "--aggregate-parts", "--aggregate-subnets-v4", "16", "--format", "jsonl",
		"--otlp-url", "http://"+address)
	monitor.wait(t, 2*time.Minute)
	require.NotContains(t, monitor.output.String(), "rejects")
	collector.stop() // it sends first what waits
	require.Empty(t, r.errs)

	want := distributions(t, &out)
	require.Greater(t, len(want), 10)
	delta := r.points(t, "delta", otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA)
	require.Len(t, delta, len(want))
	for key, intervals := range want {
		require.Len(t, delta[key], len(intervals), "%v", key)
		for end, d := range intervals {
			requireSame(t, d, delta[key][end])
		}
	}
	sums := r.points(t, "sum", otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE)
	require.Len(t, sums, len(want))
	for key, intervals := range want {
		requireSum(t, intervals, sums[key])
	}
}

// startCollector starts the OpenTelemetry Collector, which sends on what comes to its address to a service.
func startCollector(t *testing.T, program, config, service string) (collector *process, address string) {
	t.Helper()
	port, file := freePort(t), filepath.Join(t.TempDir(), "collector.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, config, port, service), 0o600))
	collector, address = start(t, nil, nil, program, "--config", file), fmt.Sprintf("127.0.0.1:%d", port)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	}, time.Minute, 50*time.Millisecond, "the collector does not start")
	return collector, address
}

// needsKernel skips a test of sluice rtt that cannot load programs.
var needsKernel = thorough.Root

// writeTraffic writes a capture of half a minute.
func writeTraffic(t *testing.T) (file string) {
	packed, err := os.Open("../../rtt/testdata/provider.pcap.gz")
	require.NoError(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	require.NoError(t, err)
	capture, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "traffic.pcap")
	require.NoError(t, os.WriteFile(file, capture, 0o600))
	return file
}

func requireSame(t *testing.T, d distribution, p *otlp.ExponentialHistogramDataPoint) {
	t.Helper()
	require.NotNil(t, p)
	e := &d.Exponential
	require.Equal(t, e.Scale, p.Scale)
	require.Equal(t, []uint64{d.Count, e.ZeroCount}, []uint64{p.Count, p.ZeroCount})
	require.Equal(t, []float64{e.ZeroThreshold, d.Min.Seconds(), d.Max.Seconds()},
		[]float64{p.ZeroThreshold, p.GetMin(), p.GetMax()})
	require.InDelta(t, float64(d.Count)*d.Mean.Seconds(), p.GetSum(), float64(d.Count)*1e-9, "the mean is rounded")
	require.Equal(t, buckets(e.Scale, p.Scale, e.Positive.Offset, e.Positive.Counts),
		buckets(p.Scale, p.Scale, p.Positive.Offset, p.Positive.BucketCounts))
	require.Less(t, p.StartTimeUnixNano, p.TimeUnixNano)
}

// requireSum compares the last one of some sums with the sum of the intervals. The collector may have joined buckets:
// it keeps no more than 160.
func requireSum(t *testing.T, intervals map[uint64]distribution, sums map[uint64]*otlp.ExponentialHistogramDataPoint) {
	t.Helper()
	var last *otlp.ExponentialHistogramDataPoint
	for _, p := range sums {
		if last == nil || p.TimeUnixNano > last.TimeUnixNano {
			last = p
		}
	}
	require.NotNil(t, last)
	var count, zeros uint64
	want := make(map[int32]uint64)
	for _, d := range intervals {
		e := &d.Exponential
		require.LessOrEqual(t, last.Scale, e.Scale)
		count, zeros = count+d.Count, zeros+e.ZeroCount
		for i, n := range buckets(e.Scale, last.Scale, e.Positive.Offset, e.Positive.Counts) {
			want[i] += n
		}
	}
	require.Equal(t, []uint64{count, zeros}, []uint64{last.Count, last.ZeroCount})
	require.Equal(t, want, buckets(last.Scale, last.Scale, last.Positive.Offset, last.Positive.BucketCounts))
}
