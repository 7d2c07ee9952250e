package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/moqt"
)

// metrics are what Collect reports.
type metrics struct {
	bytes     prometheus.Counter
	datagrams prometheus.Counter
	malformed prometheus.Counter
	refusals  *prometheus.CounterVec
	streams   *prometheus.CounterVec
	fetches   *prometheus.CounterVec
	gauges    []gauge
	all       []prometheus.Collector
}

// gauge is read when metrics are collected.
type gauge struct {
	desc *prometheus.Desc
	read func() float64
}

func newMetrics(r *Relay) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_relay_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_relay_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		bytes:     counter("received_bytes_total", "Bytes of subgroups and of object payloads in datagrams, from publishers."),
		datagrams: counter("received_datagrams_total", "Objects in datagrams, from publishers."),
		malformed: counter("malformed_tracks_total", "Times that a publisher's objects broke the rules of tracks."),
		refusals:  vec("refused_requests_total", "Requests that the relay refused, by code of REQUEST_ERROR.", "code"),
		streams:   vec("sent_subgroups_total", "Subgroup streams to subscribers that have ended, by how.", "outcome"),
		fetches:   vec("fetches_total", "FETCH requests that have ended, by how.", "outcome"),
	}
	m.all = []prometheus.Collector{m.bytes, m.datagrams, m.malformed, m.refusals, m.streams, m.fetches}
	m.gauges = []gauge{
		newGauge("sessions", "Sessions.", func() float64 { return float64(r.count(func() int { return len(r.peers) })) }),
		newGauge("tracks", "Tracks that are published, wanted or cached.", func() float64 { return float64(r.count(func() int { return len(r.hubs) })) }),
		newGauge("upstream_subscriptions", "Subscriptions at publishers.", func() float64 { return r.sum(func(h *hub) int { return len(h.up) }) }),
		newGauge("downstream_subscriptions", "Subscriptions of peers.", func() float64 { return r.sum(func(h *hub) int { return len(h.down) }) }),
		newGauge("cache_bytes", "Memory of the objects and their index.", func() float64 { return float64(r.cache.Bytes()) }),
		newGauge("cache_groups", "Groups that are indexed.", func() float64 { return float64(r.cache.Groups()) }),
	}
	return m
}

func newGauge(name, help string, read func() float64) gauge {
	return gauge{prometheus.NewDesc("sluice_relay_"+name, help, nil, nil), read}
}

func (r *Relay) count(n func() int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return n()
}

func (r *Relay) sum(n func(*hub) int) (total float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hubs {
		h.mu.Lock()
		total += float64(n(h))
		h.mu.Unlock()
	}
	return total
}

func (m *metrics) refused(code moqt.RequestErrorCode) {
	m.refusals.WithLabelValues(code.Effective().String()).Inc()
}

// Describe implements prometheus.Collector.
func (r *Relay) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range r.metrics.all {
		c.Describe(ch)
	}
	for _, g := range r.metrics.gauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (r *Relay) Collect(ch chan<- prometheus.Metric) {
	for _, c := range r.metrics.all {
		c.Collect(ch)
	}
	for _, g := range r.metrics.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.read())
	}
}
