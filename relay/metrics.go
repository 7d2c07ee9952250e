package relay

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/rendition"
	"sluice/moqt"
)

// metrics are the values that Collect reports.
type metrics struct {
	received  atomic.Uint64 // bytes
	datagrams prometheus.Counter
	linkBytes prometheus.Counter
	intruders prometheus.Counter
	malformed prometheus.Counter
	excessive prometheus.Counter
	refusals  *prometheus.CounterVec
	quotas    *prometheus.CounterVec
	streams   *prometheus.CounterVec
	fetches   *prometheus.CounterVec
	switches  *prometheus.CounterVec
	reports   prometheus.Counter

	unforwarded *prometheus.CounterVec
	gauges      []gauge
	all         []prometheus.Collector
}

// gauge is read when metrics are collected.
type gauge struct {
	desc *prometheus.Desc
	read func() int
}

func newMetrics(r *Relay) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_relay_" + name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Name: "sluice_relay_" + name, Help: help}
		return prometheus.NewCounterVec(opts, labels)
	}
	m := &metrics{
		datagrams: counter("received_datagrams_total", "Objects in datagrams, from publishers."),
		linkBytes: counter("link_received_bytes_total",
			"Bytes of subgroups and of object payloads in datagrams, from other processes of the relay."),
		intruders: counter("link_intruders_total",
			"Connections to the port for other processes of the relay that did not know the secret."),
		malformed: counter("malformed_tracks_total", "Times that a publisher's objects broke the rules of tracks."),
		excessive: counter("excessive_subgroups_total",
			"Subgroup streams of publishers that the relay stopped with EXCESSIVE_LOAD."),
		reports:  counter("playback_reports_total", "Reports of players about themselves."),
		refusals: vec("refused_requests_total", "Requests that the relay refused, by code of REQUEST_ERROR.", "code"),
		quotas: vec("quota_refusals_total",
			"Sessions and requests that were refused, datagrams that were dropped and subscriptions that were ended "+
				"because of a quota.", "account", "quota"),
		streams: vec("sent_subgroups_total", "Subgroup streams to subscribers that have ended, by how.", "outcome"),
		unforwarded: vec("unforwarded_subscriptions_total",
			"Subscriptions, or updates of one, that the fast path does not serve, by why.", "reason"),
		fetches: vec("fetches_total", "FETCH requests that have ended, by how.", "outcome"),
		switches: vec("rendition_switches_total",
			"Times that the relay went on with another rendition for a subscriber, by why.", "reason"),
	}
	trims := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sluice_relay_cache_trims_total",
		Help: "Times that a track had too many groups, subgroups, segments, datagrams or gaps, and forgot the lowest.",
	}, func() float64 { return float64(r.cache.Trims()) })
	bytes := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sluice_relay_received_bytes_total",
		Help: "Bytes of subgroups and of object payloads in datagrams, from publishers.",
	}, func() float64 { return float64(m.received.Load()) })
	m.all = []prometheus.Collector{
		bytes, m.datagrams, m.linkBytes, m.intruders, m.malformed, m.excessive, m.refusals, m.quotas, m.streams,
		m.fetches, m.unforwarded, m.switches, m.reports, trims,
	}
	upstreams := func(h *hub) int {
		return count(h.publishers.where(func(u *upstream) bool { return !u.peer.hidden }))
	}
	downstreams := func(h *hub) int {
		return count(h.subscribers.where(func(d *downstream) bool { return !d.peer.hidden }))
	}
	m.gauges = []gauge{
		newGauge("sessions", "Sessions.", r.sessions.count),
		newGauge("guests", "Clients of other protocols.", r.sessions.countGuests),
		newGauge("links", "Sessions with other processes of the relay.",
			func() int { return len(r.sessions.at(beside)) }),
		newGauge("upstream_relays", "Sessions with upstream relays, which this relay has dialed.",
			func() int { return len(r.sessions.at(elsewhere)) }),
		newGauge("open_requests", "Requests of peers that are open.", func() int { return r.accounts.OpenRequests() }),
		newGauge("accounts", "Source addresses and tokens with quotas that are in use.",
			func() int { return r.accounts.Count() }),
		newGauge("tracks", "Tracks that are published, wanted or cached.", r.directory.count),
		newGauge("upstream_subscriptions", "Subscriptions at publishers.", r.directory.sum(upstreams)),
		newGauge("downstream_subscriptions", "Subscriptions of peers.", r.directory.sum(downstreams)),
		newGauge("cache_bytes", "Memory of the objects and their index.", func() int { return int(r.cache.Bytes()) }),
		newGauge("cache_groups", "Groups that are indexed.", r.cache.Groups),
	}
	return m
}

func newGauge(name, help string, read func() int) gauge {
	return gauge{prometheus.NewDesc("sluice_relay_"+name, help, nil, nil), read}
}

func (m *metrics) refused(code moqt.RequestErrorCode) {
	m.refusals.WithLabelValues(code.Effective().String()).Inc()
}

func (m *metrics) switched(why rendition.Reason) { m.switches.WithLabelValues(why.String()).Inc() }
