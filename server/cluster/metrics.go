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
