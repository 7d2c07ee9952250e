package cluster

import "github.com/prometheus/client_golang/prometheus"

var (
	nodesDesc = prometheus.NewDesc("sluice_cluster_nodes",
		"Nodes of the cluster that are alive, with this one.", nil, nil)
	routesDesc = prometheus.NewDesc("sluice_cluster_routes",
		"Routes: namespaces that a node has a publisher for.", []string{"of"}, nil)
	engineDesc = prometheus.NewDesc("sluice_cluster_engine_present",
		"1 while messages of other nodes can arrive.", nil, nil)
	messagesDesc = prometheus.NewDesc("sluice_cluster_messages_total",
		"Messages about nodes and routes.", []string{"what"}, nil)
	feedRTTDesc = prometheus.NewDesc("sluice_cluster_feed_rtt_seconds",
		"Round-trip time to a node that feeds this one.", []string{"node"}, nil)
	feedTracksDesc = prometheus.NewDesc("sluice_cluster_feed_tracks",
		"Tracks that a node feeds to this one.", []string{"node"}, nil)
)

// Describe implements prometheus.Collector.
func (n *Node) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{nodesDesc, routesDesc, engineDesc, messagesDesc, feedRTTDesc, feedTracksDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (n *Node) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	n.mu.Lock()
	alive, own, others := n.table.alive(), len(n.own.routes), 0
	for _, m := range alive {
		others += len(m.routes)
	}
	present, feeds := 0., n.cfg.Card().Feeds
	if n.engine.Present() {
		present = 1
	}
	n.mu.Unlock()
	gauge(nodesDesc, float64(1+len(alive)))
	gauge(routesDesc, float64(own), "this node")
	gauge(routesDesc, float64(others), "other nodes")
	gauge(engineDesc, present)
	for _, f := range feeds {
		gauge(feedRTTDesc, f.RTT.Seconds(), f.From)
		gauge(feedTracksDesc, float64(f.Tracks), f.From)
	}
	s := n.Counts()
	for what, v := range map[string]uint64{
		"sent": s.Messages, "received": s.Received, "invalid": s.Invalid, "refused": s.Refused,
		"dropped": s.Dropped, "asks": s.Asks, "snapshots": s.Snapshots,
	} {
		ch <- prometheus.MustNewConstMetric(messagesDesc, prometheus.CounterValue, float64(v), what)
	}
}
