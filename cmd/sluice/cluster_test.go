package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/server"
	"sluice/server/cluster"
	"sluice/server/handover"
	"sluice/transport"
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

// TestClusterFlags expects each mistake to be named, and a flag that would change nothing to be one.
func TestClusterFlags(t *testing.T) {
	const embedded = "--cluster --node=a --cluster-advertise=moqt://x "
	const existing = "--cluster-url=nats://127.0.0.1 --node=a --cluster-advertise=moqt://x "
	const client = "--cluster-client-uri=https://x"
	const secure = "--cluster-ca=f --cluster-cert=f --cluster-key=f "
	requireMistakes(t, map[string]string{
		"":                                "",
		"--region=west":                   "--region: needs --cluster or --cluster-url",
		"--cluster-name=sluice":           "--cluster-name: needs --cluster or --cluster-url",
		"--cluster-listen=127.0.0.1:6222": "--cluster-listen: needs --cluster or --cluster-url",
		"--cluster-price=0":               "--cluster-price: needs --cluster or --cluster-url",
		"--cluster --node=a":              "--cluster-advertise URL is required",
		"--cluster --cluster-advertise=x": "--cluster-advertise: ",
		"--cluster --cluster-advertise=moqt://x?a":                "--cluster-advertise: moqt://x: must have ",
		embedded + "--node=a.b":                                   `--node: "a.b": must`,
		embedded + "--region=*":                                   `--region: "*": must`,
		embedded + "--scope=path":                                 `--scope: "path": must be one`,
		embedded + "--cluster-price=-1":                           "--cluster-price: -1: must be between 0 and 10000",
		"--cluster-capacity=1gbit":                                "--cluster-capacity: needs --cluster or",
		embedded + "--cluster-capacity=10":                        `--cluster-capacity: "10": must be a rate`,
		embedded + "--cluster-capacity=10gbit":                    "",
		"--cluster-rtt=http://x":                                  "--cluster-rtt: needs --cluster or",
		embedded + client + "/app":                                "--cluster-client-uri: https://x/app: must",
		embedded + "--cluster-client-uri=x":                       "--cluster-client-uri: ",
		embedded + "--cluster-rtt=http://x":                       "--cluster-rtt: needs --cluster-client-uri",
		embedded + client + " --cluster-rtt=x":                    `--cluster-rtt: "x": must be a URL`,
		embedded + client + " --cluster-rtt=http://[::1]:9":       "",
		embedded + "--cluster-join=127.0.0.1:6222":                "",
		existing + "--cluster-price=1":                            "",
		existing + "--upstream-ca=f":                              "",
		existing + secure + "--upstream-ca=f":                     "--upstream-ca: is for --upstream: nodes trust each",
		existing + secure + "--upstream-ca=f --upstream=moqt://x": "",
		existing + secure + "--upstream-token-file=f":             "",
		existing + "--cluster-listen=127.0.0.1:1":                 "--cluster-listen: is for --cluster;",
		existing + "--cluster-join=127.0.0.1:1":                   "--cluster-join: is for --cluster;",
	}, "--dev")
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

// countingEngine counts the messages to other nodes.
type countingEngine struct{ published, closed atomic.Int64 }

func (e *countingEngine) Publish(string, []byte) error                    { e.published.Add(1); return nil }
func (e *countingEngine) Subscribe(func(string, []byte), ...string) error { return nil }
func (e *countingEngine) Present() bool                                   { return true }
func (e *countingEngine) Alone() bool                                     { return false }
func (e *countingEngine) Close() error                                    { e.closed.Add(1); return nil }

// TestNodeIsTheLastStep lets a relay fail to start. No other node hears of it: the process that it was to replace may
// have the name, and would lose its routes.
func TestNodeIsTheLastStep(t *testing.T) {
	for name, tc := range map[string]struct {
		socket string
		joins  bool
	}{
		"fails":  {"missing/socket", false},
		"starts": {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			cert, _, err := transport.DevCertificate()
			require.NoError(t, err)
			s, err := server.Listen(server.Config{
				Listen: "127.0.0.1:0", Transport: transport.ListenConfig{Certificate: &cert},
				FastPath: server.FastPathConfig{Mode: server.FastPathOff},
			})
			require.NoError(t, err)
			var engine countingEngine
			node := &clusterNode{server.ClusterConfig{Engine: &engine, Node: "a", URL: "moqt://127.0.0.1"}}
			f := relayFlags{control: tc.socket}
			_, _, err = f.start(s, &takeover{port: handover.NewPort(handover.PortConfig{})}, node, func() {})
			require.Equal(t, tc.joins, err == nil, err)
			require.Equal(t, tc.joins, engine.published.Load() > 0)
			require.NoError(t, node.close())
			require.NoError(t, s.Drain("", 0))
			require.NotZero(t, engine.closed.Load())
		})
	}
}
