package outbox

import "github.com/prometheus/client_golang/prometheus"

// Reasons why values are lost, as in the metric.
const (
	DroppedQueue   = "queue_full"
	DroppedRefused = "refused"
	DroppedAge     = "too_old"
	DroppedAtEnd   = "ended"
)

type metrics struct {
	sent    prometheus.Counter
	dropped *prometheus.CounterVec
}

// newMetrics returns the metrics of batches to the service that a flag names. Their names begin with prefix.
func newMetrics(prefix, what, flag string) metrics {
	m := metrics{
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "_sent_total", Help: "Values (" + what + ") that the service of " + flag + " has confirmed.",
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_dropped_total", Help: "Values (" + what + ") that were lost, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{DroppedQueue, DroppedRefused, DroppedAge, DroppedAtEnd} {
		m.dropped.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) drop(reason string, n int) { m.dropped.WithLabelValues(reason).Add(float64(n)) }
