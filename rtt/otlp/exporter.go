package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"

	"sluice/internal/outbox"
	"sluice/internal/webclient"
	"sluice/rtt/report"
)

const (
	// prefixesPerMessage keeps messages far below the 20 MB that collectors take by default.
	prefixesPerMessage = 1000
	// queueSize and queueBytes are how much waits for the service. A full message takes about 200 kB, as it is
	// compressed, and one with parts and load takes a megabyte.
	queueSize, queueBytes = 256, 32 << 20
	// maxHeaders is how many headers a request may have besides ours.
	maxHeaders = 16
)

// Config is the configuration of an Exporter. URL is required.
type Config struct {
	URL        string // of the service; without a path, that is /v1/metrics
	Headers    string // of requests, as in the variable OTEL_EXPORTER_OTLP_HEADERS: name=value,name=value
	Version    string // of the program
	Host       string // that measures
	Interfaces []string
	Wait       context.Context // of the queue, see [outbox.Config]
	Logger     *slog.Logger    // nil: slog.Default()
}

// Exporter sends intervals to a service. It is a prometheus.Collector of its counters. It is used on one goroutine at a
// time.
type Exporter struct {
	*outbox.Box[[]byte]
	about *resource.Resource
}

// New returns an Exporter. It has to be closed.
func New(cfg Config) (*Exporter, error) {
	headers, err := parseHeaders(cfg.Headers)
	if err != nil {
		return nil, err
	}
	headers.Set("Content-Type", "application/x-protobuf")
	headers.Set("Content-Encoding", "gzip")
	headers.Set("Accept", "application/x-protobuf")
	box, err := outbox.Open(webclient.Config{URL: withPath(cfg.URL), Header: headers}, outbox.Config[[]byte]{
		What: "metrics", Flag: "--otlp-url", Metric: "sluice_rtt_otlp", Size: queueSize, Batch: 1,
		MaxBytes: queueBytes, Bytes: func(b []byte) int { return len(b) }, Wait: cfg.Wait,
		Encode:   func(batch [][]byte) ([]byte, error) { return batch[0], nil },
		Answered: checkAnswer, Permanent: isPermanent, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Exporter{Box: box, about: resourceOf(cfg.Version, cfg.Host, strings.Join(cfg.Interfaces, ","))}, nil
}

// withPath adds the path that services have by default to a URL without one.
func withPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Path != "" && u.Path != "/" {
		return text
	}
	u.Path = "/v1/metrics"
	return u.String()
}

// parseHeaders reads pairs such as api-key=secret, in which values may be percent-encoded. Errors do not repeat them.
func parseHeaders(text string) (http.Header, error) {
	headers := make(http.Header)
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || err != nil || len(headers) == maxHeaders ||
			!httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: must be at most %d pairs such as name=value,name=value",
				maxHeaders)
		}
		headers.Set(name, value)
	}
	return headers, nil
}

// Interval queues an interval.
func (e *Exporter) Interval(i *report.Interval) error {
	for prefixes := range slices.Chunk(i.Prefixes, prefixesPerMessage) {
		m := newMessage(i)
		for n := range prefixes {
			m.add(&prefixes[n])
		}
		body, err := e.encode(m)
		if err != nil {
			return err
		}
		e.Add(body)
	}
	return nil
}

// encode returns the compressed message. That it is one of type MetricsData, and not a request, makes no difference:
// both have the same field.
func (e *Exporter) encode(m *message) ([]byte, error) {
	raw, err := proto.Marshal(m.data(e.about))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // of a CPU that also forwards
	_, err = w.Write(raw)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// rejectedError is an answer that data points were not taken.
type rejectedError struct {
	points int64
	reason string
}

func (e *rejectedError) Error() string {
	return fmt.Sprintf("the service rejects %d data points: %.200q", e.points, e.reason)
}

// checkAnswer looks for data points that the service does not take.
func checkAnswer(b []byte) error {
	var answer service.ExportMetricsServiceResponse
	if err := proto.Unmarshal(b, &answer); err != nil {
		return nil // a status of 2xx counts
	}
	if p := answer.GetPartialSuccess(); p.GetRejectedDataPoints() > 0 {
		return &rejectedError{p.GetRejectedDataPoints(), p.GetErrorMessage()}
	}
	return nil
}

// isPermanent reports whether a message must not be sent again: the OTLP specification names the statuses after which
// it may be.
func isPermanent(err error) bool {
	if _, ok := errors.AsType[*rejectedError](err); ok {
		return true
	}
	status, ok := errors.AsType[*webclient.StatusError](err)
	return ok && !slices.Contains([]int{
		http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}, status.Status)
}
