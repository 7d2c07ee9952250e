package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/media"
)

// metrics are what all parts of a server count.
type metrics struct{ server *Server }

// Describe implements [prometheus.Collector].
func (m metrics) Describe(ch chan<- *prometheus.Desc) {
	m.server.relay.Describe(ch)
	for _, m := range loopMetrics {
		ch <- m.desc
	}
	ch <- loopErrors
	ch <- refusedConnections
	ch <- fastPathReasons
}

// Collect implements [prometheus.Collector].
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.server
	s.relay.Collect(ch)
	stats := s.loop.Stats()
	for _, m := range loopMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&stats))
	}
	for reason, n := range stats.Errors {
		ch <- prometheus.MustNewConstMetric(loopErrors, prometheus.CounterValue, float64(n), reason)
	}
	total, source := s.listener.Refused()
	for reason, n := range map[string]uint64{"total": total, "address": source} {
		ch <- prometheus.MustNewConstMetric(refusedConnections, prometheus.CounterValue, float64(n), reason)
	}
	s.fastPath.collect(ch)
}

var refusedConnections = prometheus.NewDesc("sluice_refused_connections_total",
	"QUIC connections that were refused: total, because there were too many; address, because there were too many "+
		"from one source address.", []string{"limit"}, nil)

// loopMetric is a metric of the media senders' loop.
type loopMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*media.LoopStats) float64
}

func loopCounter(name, help string, value func(*media.LoopStats) float64) loopMetric {
	return loopMetric{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, value}
}

func loopGauge(name, help string, value func(*media.LoopStats) float64) loopMetric {
	return loopMetric{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value}
}

var loopMetrics = []loopMetric{
	loopCounter("sluice_media_packets_total",
		"QUIC packets with media that were handed to the system.",
		func(s *media.LoopStats) float64 { return float64(s.Packets) }),
	loopCounter("sluice_fastpath_media_packets_total",
		"QUIC packets with media that the kernel sent by itself.",
		func(s *media.LoopStats) float64 { return float64(s.Counters.ForwarderPackets) }),
	loopCounter("sluice_media_read_acks_total",
		"Packets of subscribers with nothing but an ACK that were opened where the socket is read, without quic-go.",
		func(s *media.LoopStats) float64 { return float64(s.Counters.ReadAcks) }),
	loopCounter("sluice_media_acks_total",
		"ACK frames of subscribers.",
		func(s *media.LoopStats) float64 { return float64(s.Counters.Acks) }),
	loopCounter("sluice_media_ack_requests_total",
		"ACK_FREQUENCY frames, which ask subscribers for fewer ACKs, that were sent.",
		func(s *media.LoopStats) float64 { return float64(s.Counters.AckRequests) }),
	loopCounter("sluice_media_congested_packets_total",
		"Packets with media that paths have marked as congested instead of dropping them (ECN-CE).",
		func(s *media.LoopStats) float64 { return float64(s.Counters.CongestedPackets) }),
	loopCounter("sluice_media_messages_total",
		"Datagrams and trains of segments that were handed to the system.",
		func(s *media.LoopStats) float64 { return float64(s.Messages) }),
	loopCounter("sluice_media_system_calls_total",
		"System calls that sent them.",
		func(s *media.LoopStats) float64 { return float64(s.Calls) }),
	loopGauge("sluice_media_open_streams", "Subgroup streams to subscribers that have not ended.",
		func(s *media.LoopStats) float64 { return float64(s.Open) }),
	loopGauge("sluice_media_waiting_streams", "Subgroup streams that wait until their subscribers allow more.",
		func(s *media.LoopStats) float64 { return float64(s.Waiting) }),
	loopGauge("sluice_media_queued_streams",
		"Of these, the ones that wait until their subscribers allow more data or streams on the connection.",
		func(s *media.LoopStats) float64 { return float64(s.Queued) }),
	loopGauge("sluice_media_followed_logs",
		"Subgroups that streams follow while they grow, counted once for each goroutine that sends.",
		func(s *media.LoopStats) float64 { return float64(s.Followed) }),
	loopGauge("sluice_media_gso", "1 if the kernel segments trains of packets (UDP GSO).",
		func(s *media.LoopStats) float64 {
			if s.GSO {
				return 1
			}
			return 0
		}),
}

var loopErrors = prometheus.NewDesc("sluice_media_send_errors_total", "Failures to send, by reason.",
	[]string{"reason"}, nil)

// Collectors returns all that the server counts.
func (m metrics) Collectors() []prometheus.Collector {
	list := []prometheus.Collector{m, delayMetrics(m)}
	if mesh := m.server.mesh; mesh != nil {
		list = append(list, mesh.node, mesh.far.collector())
	}
	return list
}

// SessionMetrics returns metrics of single sessions, apart from the others: they come and go with sessions, so only a
// scraper that asks for them has to store them.
func (m metrics) SessionMetrics() prometheus.Collector { return sessionMetrics{m.server.relay} }

// Alive reports whether the server can take all its locks within a second. Otherwise something is stuck, and the
// process should be restarted.
func (m metrics) Alive() bool {
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		m.Collect(ch)
	}()
	timeout := time.After(time.Second)
	for {
		select {
		case _, more := <-ch:
			if !more {
				return true
			}
		case <-timeout:
			go func() {
				for range ch {
				}
			}()
			return false
		}
	}
}
