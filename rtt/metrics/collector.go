package metrics

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/rtt/report"
)

// A Collector is a Sink that exposes samples, flow events and intervals as metrics, and the counters of a monitor.
type Collector struct {
	counters func() (report.Counters, error)

	rtts  *prometheus.HistogramVec
	flows *prometheus.CounterVec
	dns   *prometheus.CounterVec

	descs    prefixDescs
	mu       sync.Mutex                // guards the fields below
	prefixes map[string]*prefixMetrics // by label
	followed int                       // prefixes that the kernel follows

	aggregates bool // there was an interval
}

// rttBuckets are 100 µs to 13 s, each twice the last.
var rttBuckets = prometheus.ExponentialBuckets(100e-6, 2, 18)

var (
	packetsDesc = prometheus.NewDesc("sluice_rtt_packets_total", "Packets seen, by outcome.", []string{"outcome"}, nil)
	eventsDesc  = prometheus.NewDesc("sluice_rtt_events_total", "Events of packets, flows and RTTs. "+
		"Its events-lost are RTTs and flow events that the kernel could not hand to the process.",
		[]string{"event"}, nil)
	tableDesc    = prometheus.NewDesc("sluice_rtt_flow_table_entries", "Flows that are followed now.", nil, nil)
	limitDesc    = prometheus.NewDesc("sluice_rtt_flow_table_limit", "Flows that can be followed at a time.", nil, nil)
	protocolDesc = prometheus.NewDesc("sluice_rtt_protocol_bytes_total", "Bytes seen, by transport protocol.",
		[]string{"protocol"}, nil)
	followedDesc = prometheus.NewDesc("sluice_rtt_prefixes",
		"Prefixes, groups or pairs that the kernel follows, at the end of the last interval.", nil, nil)
	ecnDesc = prometheus.NewDesc("sluice_rtt_ecn_packets_total", "Packets seen, by ECN codepoint.",
		[]string{"codepoint"}, nil)
	allDescs = []*prometheus.Desc{packetsDesc, eventsDesc, tableDesc, limitDesc, protocolDesc, ecnDesc, followedDesc}
)

// New returns a Collector without counters. The metrics of prefixes have the keys of aggregates as labels.
func New(by report.Keys) *Collector {
	return &Collector{
		rtts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_rtt_seconds", Help: "RTTs.", Buckets: rttBuckets, NativeHistogramBucketFactor: 1.1,
			NativeHistogramMaxBucketNumber: 100,
		}, []string{"protocol", "method"}),
		flows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rtt_flow_events_total", Help: "Directions of flows that opened or closed.",
		}, []string{"event", "reason"}),
		dns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rtt_dns_responses_total", Help: "Responses to DNS queries.",
		}, []string{"rcode"}),
		descs:    newPrefixDescs(by),
		prefixes: make(map[string]*prefixMetrics),
	}
}

// Follow adds the counters that the function reads. Call it before the first Collect.
func (m *Collector) Follow(counters func() (report.Counters, error)) { m.counters = counters }

// Sample takes an RTT. An RTT that is ambiguous, or of one direction, is not counted in the
// histograms.
func (m *Collector) Sample(s *report.Sample) error {
	if s.DNS != nil {
		m.dns.WithLabelValues(s.DNS.RCodeName()).Inc()
	}
	if s.Ambiguous || s.OneDirection {
		return nil
	}
	m.rtts.WithLabelValues(s.Protocol, string(s.Method)).Observe(s.RTT.Seconds())
	return nil
}

// Flow counts a flow that opened or closed.
func (m *Collector) Flow(f *report.FlowEvent) error {
	event := "closing"
	if f.Opening {
		event = "opening"
	}
	m.flows.WithLabelValues(event, string(f.Reason)).Inc()
	return nil
}

// Interval adds an interval, and drops prefixes that have been quiet for long.
func (m *Collector) Interval(i *report.Interval) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range i.Prefixes {
		m.prefixLocked(&i.Prefixes[n]).add(&i.Prefixes[n], i.End)
	}
	m.aggregates, m.followed = true, len(m.prefixes)
	if i.Aggregation.Timeout > 0 {
		m.forgetLocked(i)
	}
	return nil
}

func (m *Collector) prefixLocked(p *report.Prefix) *prefixMetrics {
	label := p.Label()
	if m.prefixes[label] == nil {
		m.prefixes[label] = &prefixMetrics{
			labels: m.descs.by.Values(p), parts: make(map[string]*report.Histogram),
			traffic: make(map[string]report.PrefixTraffic),
		}
	}
	return m.prefixes[label]
}

// Flush does nothing.
func (m *Collector) Flush() error { return nil }

// Describe implements prometheus.Collector.
func (m *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range []prometheus.Collector{m.rtts, m.flows, m.dns} {
		v.Describe(ch)
	}
	for _, d := range append(m.descs.all(), allDescs...) {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, v := range []prometheus.Collector{m.rtts, m.flows, m.dns} {
		v.Collect(ch)
	}
	m.collectPrefixes(ch)
	if m.counters == nil {
		return
	}
	c, err := m.counters()
	if err != nil {
		slog.Warn("metrics without the kernel's counters", "err", err)
		return
	}
	collectCounters(&c, ch)
}

// collectCounters passes the kernel's counters on.
func collectCounters(c *report.Counters, ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
	}
	for _, n := range c.Outcomes {
		count(packetsDesc, n.Count, n.Name)
	}
	for _, n := range c.Events {
		count(eventsDesc, n.Count, n.Name)
	}
	for _, n := range c.Transports {
		count(protocolDesc, n.Bytes, n.Name)
	}
	for _, n := range c.ECN {
		count(ecnDesc, n.Packets, n.Name)
	}
	ch <- prometheus.MustNewConstMetric(tableDesc, prometheus.GaugeValue, float64(c.Flows))
	ch <- prometheus.MustNewConstMetric(limitDesc, prometheus.GaugeValue, float64(c.FlowLimit))
}

func (m *Collector) collectPrefixes(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.aggregates {
		ch <- prometheus.MustNewConstMetric(followedDesc, prometheus.GaugeValue, float64(m.followed))
	}
	for _, p := range m.prefixes {
		p.collect(&m.descs, ch)
	}
}

// forgetLocked drops the prefixes that were without traffic for the timeout and for some intervals, and counts those
// that the kernel has not forgotten.
func (m *Collector) forgetLocked(i *report.Interval) {
	timeout := i.Aggregation.Timeout
	keep := max(timeout, quietIntervals*i.Aggregation.Every)
	var quiet []string
	for label, p := range m.prefixes {
		switch since := i.End.Sub(p.seen); {
		case since >= keep:
			delete(m.prefixes, label)
		case since >= timeout:
			quiet = append(quiet, label)
		}
	}
	m.followed = len(m.prefixes) - len(quiet)
	if len(quiet) <= maxQuiet {
		return
	}
	slices.SortFunc(quiet, func(a, b string) int { return m.prefixes[b].seen.Compare(m.prefixes[a].seen) })
	for _, label := range quiet[maxQuiet:] {
		delete(m.prefixes, label)
	}
}

const (
	// quietIntervals is how many intervals without traffic a prefix keeps its metrics for, at least. The kernel forgets
	// it after the timeout, which may be shorter than an interval. But a counter that starts again at 0 loses its first
	// counts: Prometheus sees no increase from a value that was not there.
	quietIntervals = 5
	// maxQuiet is how many prefixes are kept that the kernel has forgotten. The last seen stay.
	maxQuiet = 16384
)
