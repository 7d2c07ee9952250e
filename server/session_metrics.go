package server

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/relay"
)

// sessionMetrics are metrics of sessions that have not ended.
type sessionMetrics struct{ relay *relay.Relay }

// maxSessionSeries bounds the sessions that have metrics of their own. These are the oldest.
const maxSessionSeries = 500

func sessionDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_session_"+name, help, append([]string{"session"}, labels...), nil)
}

var (
	sessionInfo = sessionDesc("info", "1, with what does not change.", "remote", "transport", "cipher_suite",
		"controller")
	sessionPackets  = sessionDesc("packets_total", "QUIC packets with media, by who sent them.", "by")
	sessionDeclined = sessionDesc("fastpath_declined_total",
		"Copies that the kernel left to the process, by reason.", "reason")
	sessionECN    = sessionDesc("ecn", "1, with what is known about ECN marks on the path.", "state")
	sessionValues = []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value func(*relay.SessionStatus) float64
	}{
		{
			sessionDesc("sent_bytes_total", "Bytes of QUIC packets with media."),
			prometheus.CounterValue, func(s *relay.SessionStatus) float64 { return float64(s.Bytes) },
		},
		{
			sessionDesc("lost_packets_total", "Packets with media that were lost."),
			prometheus.CounterValue, func(s *relay.SessionStatus) float64 { return float64(s.Packets.Lost) },
		},
		{
			sessionDesc("rtt_seconds", "Smoothed round-trip time."),
			prometheus.GaugeValue, func(s *relay.SessionStatus) float64 { return s.SRTT.Seconds() },
		},
		{
			sessionDesc("window_bytes", "Congestion window."),
			prometheus.GaugeValue, func(s *relay.SessionStatus) float64 { return float64(s.Window) },
		},
		{
			sessionDesc("in_flight_bytes", "Bytes that are neither acknowledged nor lost."),
			prometheus.GaugeValue, func(s *relay.SessionStatus) float64 { return float64(s.InFlight) },
		},
		{
			sessionDesc("priority_threshold",
				"Subscriber priority * 256 + publisher priority beyond which streams are dropped; 65535: none are."),
			prometheus.GaugeValue, func(s *relay.SessionStatus) float64 { return float64(s.Threshold) },
		},
		{
			sessionDesc("bucket_bytes_per_second",
				"Rate at which the bucket of the drop policy fills, which the levels share; 0: there is no bucket."),
			prometheus.GaugeValue, func(s *relay.SessionStatus) float64 { return float64(s.BucketRate) },
		},
	}
	sessionsHidden = prometheus.NewDesc("sluice_sessions_without_metrics",
		"Sessions without metrics of their own, because there are too many.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (sessionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessionInfo, sessionPackets, sessionDeclined, sessionECN, sessionsHidden} {
		ch <- d
	}
	for _, v := range sessionValues {
		ch <- v.desc
	}
}

// Collect implements [prometheus.Collector].
func (m sessionMetrics) Collect(ch chan<- prometheus.Metric) {
	shown, hidden := 0, 0
	for _, s := range m.relay.Sessions() {
		switch {
		case s.Ended != nil:
		case shown == maxSessionSeries:
			hidden++
		default:
			shown++
			collectSession(ch, &s)
		}
	}
	ch <- prometheus.MustNewConstMetric(sessionsHidden, prometheus.GaugeValue, float64(hidden))
}

func collectSession(ch chan<- prometheus.Metric, s *relay.SessionStatus) {
	id := strconv.FormatUint(s.ID, 10)
	metric := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{id}, labels...)...)
	}
	metric(sessionInfo, prometheus.GaugeValue, 1, s.Remote, s.Transport, s.CipherSuite, s.Controller)
	metric(sessionECN, prometheus.GaugeValue, 1, s.ECN)
	metric(sessionPackets, prometheus.CounterValue, float64(s.Packets.Kernel), "kernel")
	metric(sessionPackets, prometheus.CounterValue, float64(s.Packets.Process), "process")
	for reason, n := range s.Declined {
		metric(sessionDeclined, prometheus.CounterValue, float64(n), reason)
	}
	for _, v := range sessionValues {
		metric(v.desc, v.kind, v.value(s))
	}
}
