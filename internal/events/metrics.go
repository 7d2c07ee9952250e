package events

import "github.com/prometheus/client_golang/prometheus"

// Reasons why events are lost, as in the metric.
const (
	droppedQueue   = "queue_full"
	droppedRefused = "refused"
	droppedAge     = "too_old"
	droppedAtEnd   = "relay_ended"
)

type metrics struct {
	sent    prometheus.Counter
	dropped *prometheus.CounterVec
}

func newMetrics() metrics {
	m := metrics{
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_events_sent_total", Help: "Events that the service of --event-url has confirmed.",
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_events_dropped_total", Help: "Events that were lost, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{droppedQueue, droppedRefused, droppedAge, droppedAtEnd} {
		m.dropped.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) drop(reason string, n int) { m.dropped.WithLabelValues(reason).Add(float64(n)) }

func (m *metrics) describe(ch chan<- *prometheus.Desc) {
	m.sent.Describe(ch)
	m.dropped.Describe(ch)
}

func (m *metrics) collect(ch chan<- prometheus.Metric) {
	m.sent.Collect(ch)
	m.dropped.Collect(ch)
}
