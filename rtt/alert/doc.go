// Package alert tells when RTTs have risen, and stay high.
//
// A [Detector] is a [report.Sink]. It follows the median and the 95th percentile of each aggregate, from interval to
// interval: each is a signal, with a usual value and a score (see [signal]). When a signal is high for long enough, an
// [Alert] is raised, and when it is as usual for as long, the alert ends. Alerts are log lines and metrics, and a
// [Sender] takes them to an HTTP service.
package alert
