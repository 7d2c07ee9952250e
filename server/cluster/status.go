package cluster

import (
	"slices"
	"time"
)

// Status describes a cluster as one of its nodes sees it.
type Status struct {
	Cluster string       `json:"cluster"`
	Node    string       `json:"node"`   // that was asked
	Engine  bool         `json:"engine"` // messages of other nodes can arrive
	Nodes   []NodeStatus `json:"nodes"`
}

// NodeStatus describes a node.
type NodeStatus struct {
	ID      string        `json:"id"`
	Card    Card          `json:"card"`
	Joined  time.Time     `json:"joined"`
	Silent  time.Duration `json:"silent_ns"`         // since something was heard of it
	Pending bool          `json:"pending,omitempty"` // it has routes that are not known yet
	Routes  []string      `json:"routes"`            // as moqt.Namespace.String writes them; at most maxListed
	More    int           `json:"more_routes,omitempty"`
}

// maxListed is how many routes of a node a status lists.
const maxListed = 1000

func nodeStatus[T any](id string, epoch uint64, c Card, routes map[string]T) NodeStatus {
	names := make([]string, 0, len(routes))
	for text := range routes {
		names = append(names, text)
	}
	slices.Sort(names)
	more := max(0, len(names)-maxListed)
	return NodeStatus{
		ID: id, Card: c, Joined: time.Unix(0, int64(epoch)), Routes: names[:len(names)-more], More: more,
	}
}
