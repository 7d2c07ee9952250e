package otlp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/moqt/session"
)

// sendTimeout bounds an attempt. Spans wait in a queue of 2048, and are lost beyond it; metrics do not wait.
const sendTimeout = 10 * time.Second

// Config is the configuration of an Exporter. URL is required.
type Config struct {
	URL     string // of the service, to which /v1/metrics and /v1/traces are added
	Version string // of the program
	Logger  *slog.Logger
}

// Exporter sends metrics and spans.
type Exporter struct {
	base    string
	client  *http.Client
	about   *resource.Resource
	metrics *metric.MeterProvider // nil before Export
	traces  *trace.TracerProvider
	tracer  api.Tracer
}

// CheckURL returns the mistake in the URL of a service.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("must be a URL such as https://collector.example:4318, without a user and a query")
	}
	return u, nil
}

// New returns an Exporter of spans. It has to be closed.
func New(cfg Config) (*Exporter, error) {
	log := cmp.Or(cfg.Logger, slog.Default())
	u, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" {
		log.Warn("metrics and spans are sent without encryption; use https", "host", u.Host)
	}
	e := &Exporter{
		base: strings.TrimSuffix(strings.TrimSuffix(u.String(), "/"), "/v1/metrics"),
		client: &http.Client{
			Timeout:       sendTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	var failed logs.Line
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		failed.Log(log, time.Minute, slog.LevelWarn, "metrics or spans are lost", "flag", "--otlp-url", "err", err)
	}))
	ctx := context.Background()
	if e.about, err = resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "sluice"), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", rand.Text()), // while a process replaces another, both send
	), resource.WithHost(), resource.WithFromEnv()); err != nil {
		return nil, err
	}
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(e.base+"/v1/traces"),
		otlptracehttp.WithHTTPClient(e.client), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return nil, err
	}
	e.traces = trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(e.about))
	e.tracer = e.traces.Tracer("sluice/relay")
	return e, nil
}

// Export sends the metrics of a registry, too, every minute.
func (e *Exporter) Export(registry prometheus.Gatherer) error {
	to, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(e.base+"/v1/metrics"),
		otlpmetrichttp.WithHTTPClient(e.client), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	if err != nil {
		return err
	}
	from := metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(registry)))
	e.metrics = metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(to, from)),
		metric.WithResource(e.about))
	return nil
}

// Close sends what waits, and the metrics once more, until ctx is done.
func (e *Exporter) Close(ctx context.Context) error {
	err := e.traces.Shutdown(ctx)
	if e.metrics != nil {
		err = errors.Join(err, e.metrics.Shutdown(ctx))
	}
	return err
}

// Request begins the span of a request of a peer. The span ends with the function that it returns. It is for
// [session.Config.Requested].
func (e *Exporter) Request(q session.RequestInfo) func(error) {
	_, span := e.tracer.Start(context.Background(), q.Type.String(), api.WithSpanKind(api.SpanKindServer),
		api.WithAttributes(
			attribute.String("network.peer.address", q.Remote), attribute.String("moqt.version", q.Version.String()),
			attribute.String("moqt.namespace", q.Track.Namespace.String()),
			attribute.String("moqt.track", strings.ToValidUTF8(q.Track.Name, "\uFFFD")),
		))
	return func(err error) {
		refused, ok := errors.AsType[*moqt.RequestError](err)
		switch {
		case ok:
			span.SetAttributes(attribute.String("moqt.result", refused.Code.String()),
				attribute.Int64("moqt.error_code", int64(refused.Code)))
			span.SetStatus(codes.Error, refused.Code.String())
		case err != nil:
			span.SetAttributes(attribute.String("moqt.result", "no response"))
			span.SetStatus(codes.Error, "no response")
		default:
			span.SetAttributes(attribute.String("moqt.result", "ok"))
		}
		span.End()
	}
}
