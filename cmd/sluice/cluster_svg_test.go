package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cluster"
)

// svgTexts returns the texts of a picture, which has to be well-formed.
func svgTexts(t *testing.T, picture []byte) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(picture)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok && len(strings.TrimSpace(string(text))) > 0 {
			texts = append(texts, string(text))
		}
	}
}

func TestClusterSVG(t *testing.T) {
	require.Equal(t, []string{
		"sluice", "west1", "no region, 0 routes", "load 0%", "3 tracks, 81.0 ms", "east1", "east, 2 routes", "load 25%",
	}, svgTexts(t, clusterSVG(exampleCluster())))
}

// treeOf returns a tree of seven nodes, and one that nobody feeds.
func treeOf() *cluster.Status {
	st := &cluster.Status{Cluster: "example"}
	add := func(id, region string, load float64, from ...string) {
		n := cluster.NodeStatus{ID: id, Card: cluster.Card{Region: region, Load: load}}
		for i, f := range from {
			n.Card.Feeds = append(n.Card.Feeds,
				cluster.Feed{From: f, Tracks: 2 + i, RTT: time.Duration(12*len(id)+i) * time.Millisecond})
		}
		st.Nodes = append(st.Nodes, n)
	}
	add("us1", "us", 0.3)
	add("us2", "us", 0.1, "us1")
	add("eu1", "eu", 0.42, "us1", "asia2")
	add("eu2", "eu", 0.2, "eu1")
	add("eu3", "eu", 0.9, "eu1", "us1", "us2")
	add("asia1", "asia", 0.05, "us1")
	add("asia2", "asia", 0.6, "asia1", "eu1")
	add("idle", "", 0)
	return st
}

// TestPlaces draws nodes that feed each other: no two are at one place, and each is right of what feeds it, as far as
// that is possible.
func TestPlaces(t *testing.T) {
	st := treeOf()
	nodes := svgNodes(st)
	width, height := svgPlace(nodes)
	places := make(map[string]bool)
	columns := make(map[string]int)
	for _, n := range nodes {
		place := fmt.Sprint(n.x, n.y)
		require.False(t, places[place])
		places[place] = true
		if !n.passes {
			columns[n.ID] = n.column
		}
		require.LessOrEqual(t, n.x+svgWidth, width)
		require.LessOrEqual(t, n.y+n.height, height)
	}
	require.Equal(t, map[string]int{
		"us1": 0, "idle": 0, "us2": 1, "asia1": 1, "asia2": 2, "eu1": 3, "eu2": 4, "eu3": 4,
	}, columns)
	svgTexts(t, clusterSVG(st))
	if name := os.Getenv("CLUSTER_SVG"); name != "" {
		require.NoError(t, os.WriteFile(name, clusterSVG(st), 0o600))
	}
}
