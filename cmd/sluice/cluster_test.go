package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cluster"
)

func exampleCluster() *cluster.Status {
	return &cluster.Status{Cluster: "sluice", Node: "west1", Engine: true, Nodes: []cluster.NodeStatus{
		{
			ID: "east1", Silent: 420 * time.Millisecond, Routes: []string{"live-a"}, More: 1,
			Card: cluster.Card{
				URL: "moqt://east1.example", Region: "east", Load: 0.25,
				Feeds: []cluster.Feed{{From: "west1", RTT: 81 * time.Millisecond, Tracks: 3}},
			},
		},
		{ID: "west1", Card: cluster.Card{URL: "moqt://west1.example", Price: 5}},
	}}
}

func TestClusterText(t *testing.T) {
	st := exampleCluster()
	require.Equal(t, strings.TrimPrefix(`
NODE   REGION  URL                   ROUTES  LOAD  PRICE  HEARD
east1  east    moqt://east1.example  2       25%   0      400ms ago
west1  -       moqt://west1.example  0       0%    5      this node
east1 is fed by west1: 3 tracks, RTT 81.0 ms
`, "\n"), string(clusterText(st, false)))
	st.Engine = false
	require.Contains(t, string(clusterText(st, true)),
		"no other node can be heard now; known routes stay\neast1 publishes live-a\neast1 publishes 1 more\n")
}

func TestClusterDot(t *testing.T) {
	require.Equal(t, strings.TrimPrefix(`
digraph "sluice" {
	rankdir=LR
	node [shape=box]
	subgraph "cluster_east" {
	label="east"
	"east1" [label="east1\n2 routes"]
	}
	"west1" [label="west1\n0 routes"]
	"west1" -> "east1" [label="3 tracks, 81.0 ms"]
}
`, "\n"), string(clusterDot(exampleCluster())))
}

func TestClusterFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		flags clusterFlags
		want  string
	}{
		"none":            {clusterFlags{}, ""},
		"without cluster": {clusterFlags{region: "west"}, "need --cluster"},
		"no URL":          {clusterFlags{embed: true, node: "a"}, "--cluster-advertise URL is required"},
		"bad URL":         {clusterFlags{embed: true, node: "a", advertise: "x"}, "--cluster-advertise: "},
		"bad node": {
			clusterFlags{embed: true, node: "a.b", name: "c", advertise: "moqt://x"}, `--node: "a.b": must`,
		},
		"bad region": {clusterFlags{embed: true, region: "*", advertise: "moqt://x"}, `--region: "*": must`},
		"good":       {clusterFlags{embed: true, node: "a", name: "c", advertise: "moqt://x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.flags.check("one")
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
	f := clusterFlags{embed: true, node: "a", name: "c", advertise: "moqt://x"}
	require.ErrorContains(t, f.check("path"), "--scope: \"path\": must be one")
}

func TestAdvertisedListen(t *testing.T) {
	for listen, want := range map[string]string{
		":6222": "west.example:6222", "0.0.0.0:6222": "west.example:6222", "[::]:7": "west.example:7",
		"192.0.2.1:6222": "", "127.0.0.1:6222": "",
	} {
		f := clusterFlags{listen: listen, advertise: "moqt://west.example:4443"}
		require.Equal(t, want, f.advertisedListen(), listen)
	}
}
