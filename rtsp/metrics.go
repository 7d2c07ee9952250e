package rtsp

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of a Server.
type metrics struct {
	received prometheus.Counter
	copies   prometheus.Counter
	bytes    prometheus.Counter
	kernel   prometheus.Counter
	drops    *prometheus.CounterVec
	declined prometheus.Counter
	lost     prometheus.Counter
	ignored  *prometheus.CounterVec
	refusals *prometheus.CounterVec
	nacks    *prometheus.CounterVec
	memory   prometheus.Counter
	all      []prometheus.Collector
}

// Reasons why a player does not get a packet, and the rest of its group.
const (
	dropTooLarge  = "too_large"
	dropQuota     = "quota"
	dropQueueFull = "queue_full"
	dropNextGroup = "next_group" // the next group has begun, and the player still caught up with the last
	dropEnded     = "ended"      // the stream has ended, and the player has not taken the last packets in time
)

// Reasons why a packet of a publisher is not taken.
const (
	ignoredMalformed = "malformed"
	ignoredSSRC      = "ssrc"
	ignoredSRTP      = "srtp"   // cannot be decrypted, or read then
	ignoredReplay    = "replay" // by SRTP, not newer than others
	ignoredQuota     = "quota"
	ignoredUplink    = "uplink_full"
	ignoredFailed    = "uplink_failed"
)

// Results for a packet that a player asks for again, besides dropQuota and dropQueueFull.
const (
	nackSent     = "sent"
	nackUnknown  = "unknown"   // the cache does not have it, or never had
	nackOften    = "often"     // it was sent again before
	nackLimit    = "limit"     // the player asks for too many
	nackSlowPath = "slow_path" // its path carries too little
	nackSRTP     = "srtp"      // it gets nothing again
)

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_rtsp_" + name, Help: help})
	}
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Name: "sluice_rtsp_" + name, Help: help}
		v := prometheus.NewCounterVec(opts, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	m := &metrics{
		received: counter("received_packets_total", "RTP packets of publishers."),
		copies:   counter("sent_packets_total", "RTP packets to players."),
		kernel:   counter("kernel_packets_total", "Of the packets to players, those that the kernel has sent."),
		bytes:    counter("sent_bytes_total", "Bytes of RTP packets to players."),
		lost:     counter("lost_packets_total", "RTP packets of publishers that did not arrive."),
		memory:   counter("refused_memory_total", "How often there was no memory for a part of a broadcast."),
		drops: vec("dropped_packets_total",
			"RTP packets that could not be sent to a player in time or exceeded its quota, one for each group: its "+
				"rest is left out as well, and not counted.", "reason",
			dropTooLarge, dropQuota, dropQueueFull, dropNextGroup, dropEnded),
		declined: counter("declined_packets_total", "RTP packets that the policy left out for a player."),
		ignored: vec("ignored_packets_total", "RTP and RTCP packets of clients that were not taken; "+
			"uplink_full, uplink_failed: only for the MoQ broadcast.", "reason",
			ignoredMalformed, ignoredSSRC, ignoredSRTP, ignoredReplay, ignoredQuota, ignoredUplink, ignoredFailed),
		nacks: vec("nacked_packets_total", "RTP packets that players asked for again, by result.", "result",
			nackSent, nackUnknown, nackOften, nackLimit, nackSlowPath, nackSRTP, dropQuota, dropQueueFull),
		refusals: vec("refused_requests_total", "Requests that were refused, by status.", "status"),
	}
	m.all = []prometheus.Collector{
		m.received, m.copies, m.bytes, m.kernel, m.lost, m.drops, m.declined, m.ignored, m.refusals, m.nacks, m.memory,
	}
	return m
}

func (m *metrics) nacked(result string) { m.nacks.WithLabelValues(result).Inc() }

func (m *metrics) dropped(reason string) { m.drops.WithLabelValues(reason).Inc() }

// forwarded counts a packet that the kernel has sent.
func (m *metrics) forwarded(bytes int) {
	m.kernel.Inc()
	m.sent(bytes)
}

func (m *metrics) sent(bytes int) {
	m.copies.Inc()
	m.bytes.Add(float64(bytes))
}

var (
	publishersDesc = prometheus.NewDesc("sluice_rtsp_publishers", "RTSP clients that publish.", nil, nil)
	uplinksDesc    = prometheus.NewDesc("sluice_rtsp_uplinks",
		"RTSP clients that publish, and whose packets become a MoQ broadcast now.", nil, nil)
	broadcastsDesc = prometheus.NewDesc("sluice_rtsp_broadcasts", "MoQ broadcasts that RTSP clients play.", nil, nil)
	limitedDesc    = prometheus.NewDesc("sluice_rtsp_limited_players",
		"RTSP clients whose path carries less than they play, as they report.", nil, nil)
	playersDesc = prometheus.NewDesc("sluice_rtsp_players", "RTSP clients that play.", nil, nil)
	cacheDesc   = prometheus.NewDesc("sluice_rtsp_cache_bytes",
		"Packets that are kept for players that join, or ask for packets again.", nil, nil)
	memoryDesc = prometheus.NewDesc("sluice_rtsp_memory_bytes",
		"Memory of the MoQ broadcasts of RTSP clients, both that publish and that play.", nil, nil)
	connectionDesc = prometheus.NewDesc("sluice_rtsp_refused_connections_total",
		"TCP connections of RTSP clients that were refused: total, because there were too many; address, because "+
			"there were too many from one source address.", []string{"limit"}, nil)
)

// counts are how many clients publish, for how many of them an uplink works, how many MoQ broadcasts are played, how
// many clients play, and how many of these have a limit.
type counts struct{ publishers, uplinks, broadcasts, players, limited int }
