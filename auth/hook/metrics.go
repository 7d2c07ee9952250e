package hook

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of decisions, as in the metric.
const (
	outcomeAllowed    = "allowed"
	outcomeRefused    = "refused"
	outcomeCached     = "cached" // either of the two, without a query
	outcomeFailed     = "failed"
	outcomeOverloaded = "overloaded"
)

func newOutcomes() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_auth_hook_decisions_total",
		Help: "Decisions of the authorization service, by outcome; cached ones needed no query.",
	}, []string{"outcome"})
	for _, o := range []string{outcomeAllowed, outcomeRefused, outcomeCached, outcomeFailed, outcomeOverloaded} {
		v.WithLabelValues(o)
	}
	return v
}

func (h *Hook) count(outcome string) { h.outcomes.WithLabelValues(outcome).Inc() }

func outcomeOf(err error) string {
	if errors.Is(err, errOverloaded) {
		return outcomeOverloaded
	}
	return outcomeFailed
}

// Describe implements prometheus.Collector.
func (h *Hook) Describe(ch chan<- *prometheus.Desc) { h.outcomes.Describe(ch) }

// Collect implements prometheus.Collector.
func (h *Hook) Collect(ch chan<- prometheus.Metric) { h.outcomes.Collect(ch) }
