package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/rtt/report"
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
			"RTTs of the hosts of a prefix by load (idle, loaded), of those that they talk to (peers), latencies "+
				"of DNS, NTP and STUN (queries), and RTTs of the whole path (one-direction).", "part"),
		traffic:  desc("bytes_total", "Bytes that a prefix received or sent.", "direction"),
		segments: desc("tcp_segments_total", "TCP segments that a prefix received or sent.", "direction"),
		retransmissions: desc("retransmissions_total",
			"TCP segments that a prefix received or sent, and that were sent again.", "direction"),
		ecnState: desc("ecn_packets_total", "Packets that a prefix received or sent, and that may be marked by ECN "+
			"(capable), or were (marked).", "direction", "state"),
		loss: desc("quic_loss_packets_total", "Packets of QUIC that a prefix received or sent, by their loss bits: "+
			"sent (all), seen here (passed), and lost anywhere (reported).", "direction", "state"),
	}
}

func (d *prefixDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.rtts, d.parts, d.traffic, d.segments, d.retransmissions, d.ecnState, d.loss}
}

// prefixMetrics is the sum of the intervals of one prefix.
type prefixMetrics struct {
	labels  []string
	seen    time.Time
	traffic map[string]report.PrefixTraffic // by direction
	rtt     report.Histogram
	parts   map[string]*report.Histogram
}

func (m *prefixMetrics) add(p *report.Prefix, now time.Time) {
	m.seen = now
	for _, d := range p.Directions() {
		m.traffic[d.Direction] = m.traffic[d.Direction].Plus(d.PrefixTraffic)
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
	for direction, t := range m.traffic {
		count(d.traffic, t.Total().Bytes, direction)
		count(d.segments, t.TCPSegments(), direction)
		count(d.retransmissions, t.Retransmissions, direction)
		count(d.ecnState, t.ECNCapable, direction, "capable")
		count(d.ecnState, t.ECNMarked, direction, "marked")
		if t.QUIC == (report.Loss{}) {
			continue
		}
		for _, n := range t.QUIC.NamedCounts() {
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
