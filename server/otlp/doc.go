// Package otlp sends the metrics of a relay, and a span of each request, to a service that speaks OTLP over HTTP, such
// as the OpenTelemetry Collector, by OpenTelemetry's SDK. Its environment variables apply: OTEL_TRACES_SAMPLER,
// OTEL_METRIC_EXPORT_INTERVAL, OTEL_EXPORTER_OTLP_HEADERS, OTEL_RESOURCE_ATTRIBUTES and the others.
package otlp
