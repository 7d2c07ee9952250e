package server

import (
	"encoding/json"
	"net/http"

	"sluice/media"
	"sluice/relay"
	"sluice/server/cluster"
	"sluice/server/steer"
)

// Status describes a running relay. It is what [Server.ServeStatus] answers, as JSON.
type Status struct {
	// FastPath counts what the kernel has done, by reason. It is nil without the fast path.
	FastPath map[string]uint64     `json:"fast_path"`
	Sessions []relay.SessionStatus `json:"sessions"`
	// Guests are the clients of other protocols.
	Guests []relay.GuestStatus `json:"guests,omitempty"`
	// Policy is the file of the operator's rule (Config.Rule), if there is one.
	Policy string `json:"policy,omitempty"`
	// Draining are the processes that this one has replaced, and that still have sessions.
	Draining []DrainingProcess `json:"draining,omitempty"`
	// Upstreams are the upstream relays.
	Upstreams []UpstreamStatus `json:"upstreams,omitempty"`
	// Sockets counts the datagrams that came to each socket, if there are several.
	Sockets []SocketArrivals `json:"sockets,omitempty"`
}

// SocketArrivals counts the datagrams that came to a socket, by the CPU on which the kernel received them.
type SocketArrivals = steer.Arrivals

// DrainingProcess is a process that another one has replaced.
type DrainingProcess = steer.Process

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v) // fails only if the client has gone
}

// Activity is what a server does now, and has done since its start, without its single sessions.
type Activity struct {
	Sessions  int
	Overview  relay.Overview
	Media     media.LoopStats
	Delays    Delays
	FastPath  map[string]uint64 // what the kernel has done, by reason; nil without the fast path
	Guests    []relay.GuestStatus
	Upstreams []UpstreamStatus
	Cluster   *cluster.Status // nil: not in a cluster
}
