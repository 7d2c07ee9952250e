// Package metrics exposes the monitor's results to Prometheus.
//
// A [Collector] is a [report.Sink] that adds up samples, flow events and intervals, and a prometheus.Collector that
// also reads the counters of the kernel programs whenever Prometheus asks. Its mutex guards the prefixes; the other
// metrics lock themselves.
package metrics
