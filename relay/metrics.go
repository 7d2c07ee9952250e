package relay

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sluice/moqt"
	"sluice/relay/internal/hub"
)

// metrics are the values that Collect reports.
type metrics struct {
	counters  hub.Counters
	intruders prometheus.Counter
	refusals  *prometheus.CounterVec
	quotas    *prometheus.CounterVec
	all       *prometheus.Registry
}

func newMetrics(r *Relay) *metrics {
	m := &metrics{all: prometheus.NewRegistry()}
	add, name := promauto.With(m.all), func(short string) string { return "sluice_relay_" + short }
	counter := func(short, help string) prometheus.Counter {
		return add.NewCounter(prometheus.CounterOpts{Name: name(short), Help: help})
	}
	vec := func(short, help string, labels ...string) *prometheus.CounterVec {
		return add.NewCounterVec(prometheus.CounterOpts{Name: name(short), Help: help}, labels)
	}
	counted := func(short, help string, read func() float64) {
		add.NewCounterFunc(prometheus.CounterOpts{Name: name(short), Help: help}, read)
	}
	gauge := func(short, help string, read func() int) {
		opts := prometheus.GaugeOpts{Name: name(short), Help: help}
		add.NewGaugeFunc(opts, func() float64 { return float64(read()) })
	}
	m.intruders = counter("link_intruders_total",
		"Connections to the port for other processes of the relay that did not know the secret.")
	m.refusals = vec("refused_requests_total", "Requests that the relay refused, by code of REQUEST_ERROR.", "code")
	m.quotas = vec("quota_refusals_total",
		"Sessions and requests that were refused, datagrams that were dropped and subscriptions that were ended "+
			"because of a quota.", "account", "quota")
	h := &m.counters
	h.Datagrams = counter("received_datagrams_total", "Objects in datagrams, from publishers.")
	h.LinkBytes = counter("link_received_bytes_total",
		"Bytes of subgroups and of object payloads in datagrams, from other processes of the relay.")
	h.Malformed = counter("malformed_tracks_total", "Times that a publisher's objects broke the rules of tracks.")
	h.Excessive = counter("excessive_subgroups_total",
		"Subgroup streams of publishers that the relay stopped with EXCESSIVE_LOAD.")
	h.Reports = counter("playback_reports_total", "Reports of players about themselves.")
	h.Streams = vec("sent_subgroups_total", "Subgroup streams to subscribers that have ended, by how.", "outcome")
	h.Unforwarded = vec("unforwarded_subscriptions_total",
		"Subscriptions, or updates of one, that the fast path does not serve, by why.", "reason")
	h.Fetches = vec("fetches_total", "FETCH requests that have ended, by how.", "outcome")
	h.Switches = vec("rendition_switches_total",
		"Times that the relay went on with another rendition for a subscriber, by why.", "reason")
	counted("cache_trims_total",
		"Times that a track had too many groups, subgroups, segments, datagrams or gaps, and forgot the lowest.",
		func() float64 { return float64(r.cache.Trims()) })
	counted("received_bytes_total", "Bytes of subgroups and of object payloads in datagrams, from publishers.",
		func() float64 { return float64(h.Received.Load()) })
	gauge("sessions", "Sessions.", r.sessions.count)
	gauge("guests", "Clients of other protocols.", func() int { return len(r.sessions.listGuests()) })
	gauge("links", "Sessions with other processes of the relay.", func() int { return len(r.sessions.at(hub.Beside)) })
	gauge("upstream_relays", "Sessions with upstream relays, which this relay has dialed.",
		func() int { return len(r.sessions.at(hub.Elsewhere)) })
	gauge("open_requests", "Requests of peers that are open.", func() int { return r.accounts.OpenRequests() })
	gauge("accounts", "Source addresses and tokens with quotas that are in use.",
		func() int { return r.accounts.Count() })
	gauge("tracks", "Tracks that are published, wanted or cached.", func() int { return r.directory.Count() })
	gauge("upstream_subscriptions", "Subscriptions at publishers.",
		func() int { return r.directory.Report().Upstreams() })
	gauge("downstream_subscriptions", "Subscriptions of peers.",
		func() int { return r.directory.Report().Downstreams() })
	gauge("cache_bytes", "Memory of the objects and their index.", func() int { return int(r.cache.Bytes()) })
	gauge("cache_groups", "Groups that are indexed.", r.cache.Groups)
	return m
}

func (m *metrics) refused(code moqt.RequestErrorCode) {
	m.refusals.WithLabelValues(code.Effective().String()).Inc()
}
