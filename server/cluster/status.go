package cluster

import (
	"slices"
	"strings"
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

// Status describes the cluster. The nodes are in the order of their names.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	s := Status{Cluster: n.cfg.Cluster, Node: n.cfg.ID, Engine: n.engine.Present()}
	s.Nodes = append(s.Nodes, nodeStatus(n.cfg.ID, n.own.Epoch, n.cfg.Card(), n.own.routes))
	for _, m := range n.table.alive() {
		ns := nodeStatus(m.id, m.Epoch, m.card, m.routes)
		ns.Silent, ns.Pending = now.Sub(m.heard), m.isBehind()
		s.Nodes = append(s.Nodes, ns)
	}
	slices.SortFunc(s.Nodes, func(a, b NodeStatus) int { return strings.Compare(a.ID, b.ID) })
	return s
}

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

// Counts returns the counters of messages.
func (n *Node) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.counts
	s.Refused = n.table.refused
	return s
}
