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

func outcomeOf(err error) string {
	if errors.Is(err, errOverloaded) {
		return outcomeOverloaded
	}
	return outcomeFailed
}
