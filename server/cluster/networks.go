package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"sluice/internal/bounds"
)

const (
	// MaxNetworks is how many networks a node tells the others about: the nearest to it.
	MaxNetworks = 1024
	// maxAllNetworks is how many networks of all nodes the table holds.
	maxAllNetworks = 1 << 17
	// tellNetworks is how often a node tells how far networks are, and networksFor how long that counts.
	tellNetworks = 30 * time.Second
	networksFor  = 3 * tellNetworks
	// maxDistance is the longest RTT of a network that counts.
	maxDistance = 10 * time.Second

	// A client is sent to another node that is at most this part as far, and at least so much nearer and cheaper. A
	// track moves for less: a client pays for its move with a new session, and stays where it was sent.
	nearerPart   = 0.5
	nearerSaving = 20 * time.Millisecond

	ipv4Bits, ipv6Bits = 24, 48
)

// Networks says how far networks are from a node: their round-trip times. NetworkOf returns the keys.
type Networks map[netip.Prefix]time.Duration

// NetworkOf returns the network of an address: its IPv4 /24 or its IPv6 /48. It returns the zero Prefix for an address
// that is none.
func NetworkOf(a netip.Addr) netip.Prefix {
	bits := ipv6Bits
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = ipv4Bits
	}
	p, _ := a.Prefix(bits)
	return p
}

// Nearest returns the nearest networks: as many as a node may tell others about.
func (n Networks) Nearest() Networks {
	if len(n) <= MaxNetworks {
		return n
	}
	keys := slices.SortedFunc(maps.Keys(n), func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(n[a], n[b]), a.Compare(b))
	})
	nearest := make(Networks, MaxNetworks)
	for _, p := range keys[:MaxNetworks] {
		nearest[p] = n[p]
	}
	return nearest
}

// networksMessage tells how far networks are from the sender. It replaces the sender's last.
type networksMessage struct {
	state
	Micros map[netip.Prefix]uint32 `json:"us"` // round-trip times
}

func newNetworksMessage(s state, n Networks) networksMessage {
	m := networksMessage{s, make(map[netip.Prefix]uint32)}
	for p, rtt := range n.Nearest() {
		m.Micros[p] = uint32(min(max(rtt, time.Microsecond), maxDistance).Microseconds())
	}
	return m
}

func decodeNetworks(b []byte) (m networksMessage, err error) {
	if err := decode(b, &m); err != nil {
		return m, err
	}
	if err := bounds.Check("number of networks", len(m.Micros), 0, MaxNetworks); err != nil {
		return m, err
	}
	for p, us := range m.Micros {
		if !p.IsValid() || p != NetworkOf(p.Addr()) {
			return m, fmt.Errorf("network: %v: must be an IPv4 /%d or an IPv6 /%d", p, ipv4Bits, ipv6Bits)
		}
		if err := bounds.Check("RTT in µs", us, 1, uint32(maxDistance.Microseconds())); err != nil {
			return m, err
		}
	}
	return m, nil
}

// ClientAt is where to send a client.
type ClientAt struct {
	Node string
	URL  string        // for clients
	RTT  time.Duration // of the client's network
}

// Elsewhere is where clients of a node could go, by the facts known at a time.
type Elsewhere struct {
	own     Cost                    // but for the round-trip time
	nodes   []clientNode            // in no order
	reaches map[netip.Prefix][]Peer // those that are known to reach a network that was asked about
}

// clientNode is a node that takes clients.
type clientNode struct {
	Peer
	near map[netip.Prefix]uint32 // is not changed
}

// Elsewhere returns where clients could go now. One goroutine at a time may use it.
func (n *Node) Elsewhere() *Elsewhere {
	n.mu.Lock()
	defer n.mu.Unlock()
	own := n.cfg.Card()
	e := &Elsewhere{own: Cost{Load: own.Load, Price: own.Price}, reaches: make(map[netip.Prefix][]Peer)}
	now := time.Now()
	for _, m := range n.table.members {
		if !m.gone && m.card.ClientURL != "" && len(m.near) > 0 && now.Sub(m.nearAt) < networksFor {
			e.nodes = append(e.nodes, clientNode{Peer{ID: m.id, URL: m.card.ClientURL, Cost: Cost{
				Load: m.card.Load, Price: m.card.Price,
			}}, m.near})
		}
	}
	return e
}

// Nearer returns the node that a client with this round-trip time to this node should go to. ok is false if none is
// much nearer to its network, as far as that is known.
func (e *Elsewhere) Nearer(network netip.Prefix, rtt time.Duration) (to ClientAt, ok bool) {
	self := Peer{Cost: e.own}
	self.Cost.RTT = rtt
	best, ok := nearer(self, e.reaching(network))
	return ClientAt{best.ID, best.URL, best.Cost.RTT}, ok
}

// reaching returns the nodes that are known to reach a network, with their round-trip times.
func (e *Elsewhere) reaching(network netip.Prefix) []Peer {
	list, asked := e.reaches[network]
	if asked {
		return list
	}
	for _, n := range e.nodes {
		if us, measured := n.near[network]; measured {
			n.Cost.RTT = time.Duration(us) * time.Microsecond
			list = append(list, n.Peer)
		}
	}
	e.reaches[network] = list
	return list
}

// nearer returns the cheapest of the nodes that are much nearer to a client than self, and not full; of several, the
// first by id. The cost of a node has the round-trip time to the client.
func nearer(self Peer, others []Peer) (best Peer, ok bool) {
	const saving = float64(nearerSaving) / float64(time.Millisecond)
	for _, p := range others {
		near := float64(p.Cost.RTT) <= nearerPart*float64(self.Cost.RTT) && p.Cost.RTT+nearerSaving <= self.Cost.RTT
		cheap := p.Cost.value()+saving <= self.Cost.value() && p.Cost.Load <= fullLoad-relief
		better := cmp.Or(cmp.Compare(p.Cost.value(), best.Cost.value()), cmp.Compare(p.ID, best.ID)) < 0
		if near && cheap && (!ok || better) {
			best, ok = p, true
		}
	}
	return best, ok
}
