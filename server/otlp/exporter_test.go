package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"sluice/moqt"
	"sluice/moqt/session"
)

// service takes spans and metrics.
type service struct {
	*httptest.Server
	mu      sync.Mutex // guards what follows
	header  http.Header
	metrics metrics.ExportMetricsServiceRequest
	traces  traces.ExportTraceServiceRequest
	errs    []error
}

func newService(t *testing.T) *service {
	s := new(service)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.header = r.Header
		s.errs = append(s.errs, s.take(r))
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) take(r *http.Request) error {
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	switch r.URL.Path {
	case "/base/v1/metrics":
		return proto.Unmarshal(body, &s.metrics)
	case "/base/v1/traces":
		return proto.Unmarshal(body, &s.traces)
	}
	return errors.New(r.URL.Path)
}

// texts returns attributes, numbers as well.
func texts(all []*common.KeyValue) map[string]any {
	m := make(map[string]any)
	for _, kv := range all {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		}
	}
	return m
}

// TestExporter sends a counter, and spans of requests that are accepted, refused and given up.
func TestExporter(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=sesame")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	s := newService(t)
	var log bytes.Buffer
	// With the path of the flag that sluice rtt has.
	e, err := New(Config{
		URL: s.URL + "/base/v1/metrics", Version: "v1", Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	require.Contains(t, log.String(), "without encryption")
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_things_total", Help: "Things."})
	counter.Add(3)
	registry.MustRegister(counter)
	require.NoError(t, e.Export(registry))
	track := moqt.FullTrackName{Namespace: moqt.Namespace{"live", "\xff"}, Name: "video\xff"}
	q := session.RequestInfo{Remote: "192.0.2.1:5", Version: moqt.Draft18, Type: moqt.MessageSubscribe, Track: track}
	e.Request(q)(nil)
	q.Type = moqt.MessageFetch
	e.Request(q)(&moqt.RequestError{Code: moqt.RequestUnauthorized, Reason: "who are you?"})
	q.Type = moqt.MessagePublish
	e.Request(q)(errors.New("cancelled"))
	require.NoError(t, e.Close(context.Background()))

	for _, err := range s.errs {
		require.NoError(t, err)
	}
	require.Equal(t, "sesame", s.header.Get("Api-Key"))
	resource := s.traces.ResourceSpans[0]
	about := texts(resource.Resource.Attributes)
	require.Equal(t, "sluice", about["service.name"])
	require.Equal(t, "v1", about["service.version"])
	require.NotEmpty(t, about["service.instance.id"])
	require.Equal(t, "test", about["deployment.environment"])
	spans := resource.ScopeSpans[0].Spans
	require.Len(t, spans, 3)
	for i, want := range []struct {
		name, result string
		code         any
		status       trace.Status_StatusCode
	}{
		{"SUBSCRIBE", "ok", nil, trace.Status_STATUS_CODE_UNSET},
		{"FETCH", moqt.RequestUnauthorized.String(), int64(moqt.RequestUnauthorized), trace.Status_STATUS_CODE_ERROR},
		{"PUBLISH", "no response", nil, trace.Status_STATUS_CODE_ERROR},
	} {
		require.Equal(t, want.name, spans[i].Name)
		require.Equal(t, want.status, spans[i].Status.GetCode())
		a := texts(spans[i].Attributes)
		require.Equal(t, want.result, a["moqt.result"])
		require.Equal(t, want.code, a["moqt.error_code"])
		require.Equal(t, track.Namespace.String(), a["moqt.namespace"])
		require.Equal(t, "video\uFFFD", a["moqt.track"])
		require.Equal(t, "192.0.2.1:5", a["network.peer.address"])
	}
	var sums []float64
	for _, scope := range s.metrics.ResourceMetrics[0].ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == "sluice_things_total" {
				sums = append(sums, m.GetSum().DataPoints[0].GetAsDouble())
			}
		}
	}
	require.Equal(t, []float64{3}, sums)
}

// TestSampler has the SDK choose no spans.
func TestSampler(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	s := newService(t)
	e, err := New(Config{URL: s.URL + "/base", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	e.Request(session.RequestInfo{Type: moqt.MessageSubscribe})(nil)
	require.NoError(t, e.Close(context.Background()))
	require.Empty(t, s.traces.ResourceSpans)
}

// TestRedirects sends what it has, and the headers with it, nowhere else.
func TestRedirects(t *testing.T) {
	s := newService(t)
	redirect := httptest.NewServer(http.RedirectHandler(s.URL+"/base/v1/traces", http.StatusTemporaryRedirect))
	defer redirect.Close()
	e, err := New(Config{URL: redirect.URL, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	e.Request(session.RequestInfo{Type: moqt.MessageSubscribe})(nil)
	require.NoError(t, e.Close(context.Background())) // the loss is logged
	require.Empty(t, s.traces.ResourceSpans)
}

func TestURLs(t *testing.T) {
	for _, url := range []string{
		"", "collector:4318", "ftp://collector", "http://u:p@collector", "http://collector/?a=b", ":",
	} {
		_, err := New(Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
		require.ErrorContains(t, err, "must be a URL", url)
	}
}
