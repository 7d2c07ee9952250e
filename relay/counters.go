package relay

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are what hubs count.
type counters struct {
	received  atomic.Uint64 // bytes, from publishers
	datagrams prometheus.Counter
	linkBytes prometheus.Counter
	malformed prometheus.Counter
	excessive prometheus.Counter
	reports   prometheus.Counter
	streams   *prometheus.CounterVec // by outcome
	fetches   *prometheus.CounterVec // by outcome
	switches  *prometheus.CounterVec // by reason

	unforwarded *prometheus.CounterVec // by reason
}
