// Package otlp sends aggregates as OpenTelemetry metrics, by OTLP over HTTP.
//
// An [Exporter] makes messages of each interval, each with a part of the prefixes, and an [outbox.Box] sends them. The
// histograms are exponential ones of scale 5, whose buckets are the bins of the kernel, so nothing is lost. The
// temporality is delta: a message has the counts of its interval, and the exporter needs to remember nothing.
package otlp
