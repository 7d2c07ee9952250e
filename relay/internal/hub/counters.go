package hub

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Counters are what hubs count.
type Counters struct {
	Received  atomic.Uint64 // bytes, from publishers
	Datagrams prometheus.Counter
	LinkBytes prometheus.Counter
	Malformed prometheus.Counter
	Excessive prometheus.Counter
	Reports   prometheus.Counter
	Streams   *prometheus.CounterVec // by outcome
	Fetches   *prometheus.CounterVec // by outcome
	Switches  *prometheus.CounterVec // by reason

	Unforwarded *prometheus.CounterVec // by reason
}
