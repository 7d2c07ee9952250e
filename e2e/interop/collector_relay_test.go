package interop

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// forwardingConfig has the collector send on what it gets. Placeholders are as in collectorConfig.
const forwardingConfig = `
receivers:
  otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}
exporters:
  otlp_http: {endpoint: "%s", compression: none, retry_on_failure: {enabled: false}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [otlp], exporters: [otlp_http]}
    traces: {receivers: [otlp], exporters: [otlp_http]}
`

// relayReceiver keeps the names of metrics and spans that the collector sends on.
type relayReceiver struct {
	*httptest.Server
	mu             sync.Mutex // guards what follows
	metrics, spans map[string]int
	errs           []error
}

func newRelayReceiver(t *testing.T) *relayReceiver {
	r := &relayReceiver{metrics: make(map[string]int), spans: make(map[string]int)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err, r.take(req.URL.Path, body))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *relayReceiver) take(path string, body []byte) error {
	var m metrics.ExportMetricsServiceRequest
	var s traces.ExportTraceServiceRequest
	switch path {
	case "/v1/metrics":
		if err := proto.Unmarshal(body, &m); err != nil {
			return err
		}
	case "/v1/traces":
		if err := proto.Unmarshal(body, &s); err != nil {
			return err
		}
	default:
		return errors.New(path)
	}
	for _, resource := range m.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, metric := range scope.Metrics {
				r.metrics[metric.Name]++
			}
		}
	}
	for _, resource := range s.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				r.spans[span.Name]++
			}
		}
	}
	return nil
}

// TestCollectorOfRelay sends a relay's metrics, and the spans of a publisher's requests, through the OpenTelemetry
// Collector.
func TestCollectorOfRelay(t *testing.T) {
	program := client(t, "otelcol")
	r := newRelayReceiver(t)
	collector, address := startCollector(t, program, forwardingConfig, r.URL)
	relay := startRelay(t, "--fastpath", "off", "--otlp-url", "http://"+address)
	pub := start(t, nil, nil, "sluice", "pub", "--relay", fmt.Sprintf("moqt://127.0.0.1:%d", relay.port),
		"--tls-disable-verify", "--namespace", "live", "../../testdata/clip.mp4")
	pub.wait(t, time.Minute)
	relay.stop() // both send first what waits
	collector.stop()
	for _, err := range r.errs {
		require.NoError(t, err)
	}
	require.Positive(t, r.spans["PUBLISH_NAMESPACE"], "%v", r.spans)
	for _, name := range []string{"sluice_build_info", "sluice_relay_sessions", "go_goroutines"} {
		require.Positive(t, r.metrics[name], "%v", r.metrics)
	}
}
