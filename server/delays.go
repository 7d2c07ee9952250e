package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/delay"
)

// measureFor is how long delays are measured after somebody has asked for them: longer than scrapers pause.
const measureFor = 5 * time.Minute

// delayMeter has both senders measure how long packets stay in the relay, while somebody wants to know.
type delayMeter struct {
	server  *Server
	measure func(on bool)

	mu    sync.Mutex
	until *time.Timer // ends it; nil while nothing is measured
}

// goOn begins to measure, or goes on.
func (m *delayMeter) goOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.measure(true)
		m.until = time.AfterFunc(measureFor, m.end)
		return
	}
	m.until.Reset(measureFor)
}

func (m *delayMeter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until != nil {
		m.until.Stop()
		m.until = nil
		m.measure(false)
	}
}

// measureBoth has both senders measure, or ends that.
func (m *delayMeter) measureBoth(on bool) {
	m.server.loop.Measure(on)
	if f := m.server.fastPath.FastPath; f != nil {
		f.Measure(on)
	}
}

// Delays are how long packets have stayed in the relay while that was measured: from when a publisher's packet came,
// until a packet with its bytes left for a subscriber. The kernel's begin at the device; the process's when the packet
// was read from its socket, so they lack the time that it waited there.
type Delays struct{ Kernel, Process delay.Histogram }

// Delays returns the delays that were measured. They are measured from the first call on, until five minutes after the
// last one.
func (m *delayMeter) Delays() (d Delays, err error) {
	m.goOn()
	d.Process = m.server.loop.Delays()
	if f := m.server.fastPath.FastPath; f != nil {
		d.Kernel, err = f.Delays()
	}
	return d, err
}

// delayMetrics are apart from those of the Server, because whoever collects them has delays measured.
type delayMetrics struct{ server *Server }

var addedDelay = prometheus.NewDesc("sluice_added_delay_seconds",
	"How long publishers' packets stayed in the relay until a copy left for a subscriber, while that was measured: "+
		"until five minutes after each scrape.", []string{"by"}, nil)

// Describe implements [prometheus.Collector].
func (m delayMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- addedDelay }

// Collect implements [prometheus.Collector].
func (m delayMetrics) Collect(ch chan<- prometheus.Metric) {
	d, err := m.server.Delays()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(addedDelay, err)
		return
	}
	for by, h := range map[string]*delay.Histogram{"kernel": &d.Kernel, "process": &d.Process} {
		ch <- prometheus.MustNewConstHistogram(addedDelay, h.Count(), h.Sum.Seconds(), buckets(h), by)
	}
}

// buckets returns the cumulative buckets of a histogram: one for each power of two.
func buckets(h *delay.Histogram) map[float64]uint64 {
	all := make(map[float64]uint64)
	for bin := 1; bin < delay.Bins; bin += 1 << delay.BinSteps {
		all[delay.Start(bin).Seconds()] = h.Below(bin)
	}
	return all
}
