package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/rtt/report"
)

// prefixDescs describe the metrics of prefixes.
type prefixDescs struct {
	by                                                              report.Keys
	rtts, parts, traffic, segments, retransmissions, ecnState, loss *prometheus.Desc
}

func newPrefixDescs(by report.Keys) prefixDescs {
	labels := by.Names()
	desc := func(name, help string, more ...string) *prometheus.Desc {
		all := append(labels[:len(labels):len(labels)], more...)
		return prometheus.NewDesc("sluice_rtt_prefix_"+name, help, all, nil)
	}
	return prefixDescs{
		by:   by,
		rtts: desc("rtt_seconds", "RTTs of the hosts of a prefix."),
		parts: desc("part_rtt_seconds",
			"RTTs of the hosts of a prefix by load (idle, loaded), of those that they talk to (peers), and latencies "+
				"of DNS, NTP and STUN (queries).", "part"),
		traffic:         desc("bytes_total", "Bytes that a prefix received or sent.", "direction"),
		segments:        desc("tcp_segments_total", "TCP segments from or to a prefix."),
		retransmissions: desc("retransmissions_total", "TCP segments from or to a prefix that were sent again."),
		ecnState: desc("ecn_packets_total",
			"Packets from or to a prefix that may be marked by ECN (capable), and that were (marked).", "state"),
		loss: desc("quic_loss_packets_total", "Packets of QUIC that a prefix received or sent, by their loss bits: "+
			"sent (all), seen here (passed), and lost anywhere (reported).", "direction", "state"),
	}
}

func (d *prefixDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.rtts, d.parts, d.traffic, d.segments, d.retransmissions, d.ecnState, d.loss}
}

// prefixMetrics is the sum of the intervals of one prefix.
type prefixMetrics struct {
	labels          []string
	seen            time.Time
	received, sent  report.Traffic
	segments        uint64 // of TCP
	retransmissions uint64
	capable, marked uint64                 // by ECN
	losses          map[string]report.Loss // of QUIC, by direction
	rtt             report.Histogram
	parts           map[string]*report.Histogram
}

func (m *prefixMetrics) add(p *report.Prefix, now time.Time) {
	m.seen = now
	m.received = m.received.Plus(p.Received.Total())
	m.sent = m.sent.Plus(p.Sent.Total())
	m.segments += p.TCPSegments()
	m.retransmissions += p.Retransmissions
	m.capable += p.ECNCapable
	m.marked += p.ECNMarked
	for _, l := range p.Losses() {
		if l.All > 0 {
			m.losses[l.Direction] = m.losses[l.Direction].Plus(l.Loss)
		}
	}
	m.rtt.Add(&p.RTT)
	for _, part := range p.Parts() {
		if m.parts[part.Name] == nil {
			m.parts[part.Name] = new(report.Histogram)
		}
		m.parts[part.Name].Add(part.RTTs)
	}
}

func (m *prefixMetrics) collect(d *prefixDescs, ch chan<- prometheus.Metric) {
	labels := func(more ...string) []string { return append(m.labels[:len(m.labels):len(m.labels)], more...) }
	count := func(d *prometheus.Desc, n uint64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels(more...)...)
	}
	count(d.traffic, m.received.Bytes, "received")
	count(d.traffic, m.sent.Bytes, "sent")
	count(d.segments, m.segments)
	count(d.retransmissions, m.retransmissions)
	count(d.ecnState, m.capable, "capable")
	count(d.ecnState, m.marked, "marked")
	for direction, l := range m.losses {
		for _, n := range l.NamedCounts() {
			count(d.loss, n.Count, direction, n.Name)
		}
	}
	if m.rtt.Count > 0 {
		ch <- newPrefixHistogram(d.rtts, &m.rtt, labels())
	}
	for name, h := range m.parts {
		ch <- newPrefixHistogram(d.parts, h, labels(name))
	}
}
