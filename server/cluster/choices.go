package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"sluice/moqt"
)

// Choice is a node to ask for a track.
type Choice struct {
	Node string
	URL  string
	// Origin: the node is asked because it has the publisher, and must not ask others.
	Origin bool
}

// Peer is a node, with the facts that its choice depends on.
type Peer struct {
	ID     string
	URL    string
	Region string
	Cost   Cost
}

// Cost is the cost of asking a node.
type Cost struct {
	RTT   time.Duration // 0: not measured
	Load  float64       // 0 to 1
	Price float64       // configured, as milliseconds of RTT
}

const (
	// unknownRTT counts while there is no session with a node.
	unknownRTT = 100 * time.Millisecond
	// loadCost is the cost of half a load, in milliseconds; the rest follows, as in a queue.
	loadCost = 10
	// fullLoad is the load beyond which a parent is asked last, and relief how much less it must be to change back.
	fullLoad = 0.9
	relief   = 0.2
	// A node is left for a cheaper one that saves this part of the cost, and at least this many milliseconds.
	minSaving   = 0.2
	minSavingMS = 5
)

// value returns the cost as milliseconds of RTT.
func (c Cost) value() float64 {
	rtt := cmp.Or(c.RTT, unknownRTT)
	load := min(max(c.Load, 0), 0.99)
	return float64(rtt)/float64(time.Millisecond) + c.Price + loadCost*load/(1-load)
}

// Choices returns the nodes that self may ask for the tracks of a namespace, the best first. origins have a publisher,
// nodes are the others of its region that are alive (nodes of other regions change nothing), and current is the node
// that is asked now, if any.
//
// If an origin is in the region of self, origins are asked. Else the parent is: the node of the region with the highest
// rank for the namespace, which asks the origins. A parent with a full load, and those with a lower rank than another,
// come later, and the origins last.
//
// There are no loops, even if all nodes believe something else: a node is asked as a parent only by one with a lower
// rank, which nothing but the names determines, and one that is asked as the origin asks nobody.
func Choices(self Peer, ns moqt.Namespace, origins, nodes []Peer, current string) (choices []Choice) {
	others := slices.DeleteFunc(slices.Clone(origins), func(p Peer) bool { return p.ID == self.ID })
	if len(others) == 0 {
		return nil
	}
	near := func(p Peer) bool { return p.Region == self.Region }
	if !slices.ContainsFunc(others, near) {
		for _, p := range parents(self, ns, nodes, current) {
			choices = append(choices, Choice{Node: p.ID, URL: p.URL})
		}
	}
	slices.SortStableFunc(others, func(a, b Peer) int {
		return cmp.Or(
			compareBool(near(a), near(b)), cmp.Compare(a.Cost.value(), b.Cost.value()), cmp.Compare(a.ID, b.ID))
	})
	keepCurrent(others, near, current)
	for _, p := range others {
		choices = append(choices, Choice{Node: p.ID, URL: p.URL, Origin: true})
	}
	return choices
}

// parents returns the nodes of the region with a higher rank than self. Those with a full load are last.
func parents(self Peer, ns moqt.Namespace, nodes []Peer, current string) []Peer {
	key := ns.String()
	own, ranks := rankOf(key, self.ID), make(map[string]rank)
	var list []Peer
	for _, p := range nodes {
		if p.Region != self.Region {
			continue
		}
		if r := rankOf(key, p.ID); r.compare(own) > 0 {
			ranks[p.ID] = r
			list = append(list, p)
		}
	}
	isFull := func(p Peer) bool {
		if p.ID == current {
			return p.Cost.Load > fullLoad
		}
		return p.Cost.Load > fullLoad-relief && current != "" || p.Cost.Load > fullLoad
	}
	slices.SortFunc(list, func(a, b Peer) int {
		return cmp.Or(compareBool(isFull(b), isFull(a)), ranks[b.ID].compare(ranks[a.ID]))
	})
	return list
}

// keepCurrent puts the node that is asked now first, unless the first one is much cheaper.
func keepCurrent(sorted []Peer, near func(Peer) bool, current string) {
	i := slices.IndexFunc(sorted, func(p Peer) bool { return p.ID == current })
	if i <= 0 || near(sorted[0]) != near(sorted[i]) {
		return
	}
	old := sorted[i].Cost.value()
	if saving := old - sorted[0].Cost.value(); saving >= minSavingMS && saving >= minSaving*old {
		return
	}
	p := sorted[i]
	copy(sorted[1:], sorted[:i])
	sorted[0] = p
}

// compareBool orders true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// rank orders the nodes of a region for a namespace. When a node comes or goes, only the namespaces where it ranks
// highest change their parent (rendezvous hashing).
type rank struct {
	hash uint64
	id   string
}

func rankOf(key, id string) rank {
	sum := sha256.Sum256([]byte(key + "\x00" + id))
	return rank{binary.BigEndian.Uint64(sum[:8]), id}
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.hash, o.hash), cmp.Compare(r.id, o.id))
}

// Choices returns the nodes to ask for the tracks of a namespace, the best first: see the function of that name. It
// returns none if no other node has a publisher.
func (n *Node) Choices(ns moqt.Namespace, current string) []Choice {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.table.origins(ns)
	if len(found) == 0 {
		return nil
	}
	self := Peer{ID: n.cfg.ID, Region: n.cfg.Card().Region}
	return Choices(self, ns, n.peersLocked(found), n.peersLocked(n.table.inRegion(self.Region)), current)
}

// peersLocked returns the nodes to choose from.
func (n *Node) peersLocked(members []*member) []Peer {
	list := make([]Peer, len(members))
	for i, m := range members {
		c := &m.card
		list[i] = Peer{
			ID: m.id, URL: c.URL, Region: c.Region, Cost: Cost{RTT: n.cfg.RTT(m.id), Load: c.Load, Price: c.Price},
		}
	}
	return list
}
