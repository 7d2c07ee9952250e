package cluster

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/internal/logs"
	"sluice/moqt"
)

const (
	// maxMembers is how many nodes the table holds, those included that were there lately.
	maxMembers = 4096
	// maxTable is how many bytes the routes of all nodes may take, and maxShare the routes of one: about 100,000 names.
	maxTable = 128 << 20
	maxShare = 16 << 20
	// routeCost is how many bytes a route takes besides its name.
	routeCost = 96
	// forget is how long a node that is gone is remembered, so that its late messages change nothing.
	forget = 10 * Lease
	// recallAgain is how often a node is asked again whose routes had no room.
	recallAgain = 30 * time.Second
)

// Change says that a node has a publisher for a namespace now, or has none any more.
type Change struct {
	Node      string
	Namespace moqt.Namespace
	Gone      bool
}

// table has the other nodes and their routes. It has no lock and no clock of its own.
type table struct {
	members map[string]*member
	of      map[string][]*member // the origins of each namespace, by its text form
	bytes   int                  // that the routes take
	refused uint64               // nodes, routes and lists of networks that found no room
	watch   func(Change)

	networks int // how many the lists of all nodes have
}

// member is another node.
type member struct {
	id     string
	state         // the epoch and the version of the known routes
	latest uint64 // the version that the node has
	card   Card
	heard  time.Time // when it sent something last
	seen   time.Time // when there was another sign of its life
	gone   bool      // silent for too long, or left
	left   bool      // said so

	routes   map[string]uint32 // by the text form of the namespace: the last snapshot that had it
	bytes    int               // that they take
	snapshot uint32            // counts the snapshots
	next     int               // the part of the snapshot that has to come next
	taking   uint64            // the version of that snapshot
	needs    int               // bytes of the smallest route that found no room; 0: all did
	recalled time.Time         // when it was last noted that there is room for it now

	joins, leaves logs.Line

	near   map[netip.Prefix]uint32 // round-trip times of networks, in microseconds
	nearAt time.Time               // when the node has told them
}

func newTable(watch func(Change)) table {
	return table{members: make(map[string]*member), of: make(map[string][]*member), watch: watch}
}

// isBehind reports whether the node has routes that are not known.
func (m *member) isBehind() bool { return !m.gone && m.Version < m.latest }

// meet notes that a node is alive, and its card. It returns nil if the message is late, or there is no room.
func (t *table) meet(id string, b *beat, now time.Time) *member {
	m := t.members[id]
	switch {
	case m == nil && len(t.members) >= maxMembers:
		t.refused++
		return nil
	case m == nil:
		m = &member{id: id, routes: make(map[string]uint32)}
		t.members[id] = m
	case b.Epoch < m.Epoch && (!m.gone || now.Sub(m.heard) <= Lease), b.Epoch == m.Epoch && m.left:
		return nil
	}
	if b.Epoch != m.Epoch { // an earlier one beyond the lease: the clock of the node has stepped back
		t.clear(m)
		m.Epoch, m.latest = b.Epoch, 0
	}
	m.gone, m.left = false, false
	m.card, m.heard, m.latest = b.Card, now, max(m.latest, b.Version)
	return m
}

// change changes a route, if it is the next change of the node.
func (t *table) change(id string, c *changeMessage, now time.Time) {
	m := t.members[id]
	if m == nil || m.gone || c.Epoch != m.Epoch {
		return
	}
	m.heard, m.latest = now, max(m.latest, c.Version)
	if c.Version != m.Version+1 {
		return
	}
	m.Version = c.Version
	if c.Gone {
		t.remove(m, c.Namespace)
	} else {
		t.add(m, c.Namespace)
	}
}

// part takes a part of a snapshot. Routes that no part has are gone when the last one has come.
func (t *table) part(id string, p *part, now time.Time) {
	m := t.meet(id, &p.beat, now)
	switch {
	case m == nil, p.Version <= m.Version:
		return
	case p.Index == 0:
		m.snapshot++
		m.taking, m.needs = p.Version, 0
	case p.Index != m.next, p.Version != m.taking:
		m.next = 0 // a part is missing; the node is asked again
		return
	}
	for _, text := range p.Routes {
		t.add(m, text)
	}
	if m.next = p.Index + 1; !p.Last {
		return
	}
	m.next, m.Version = 0, p.Version
	for text, snapshot := range m.routes {
		if snapshot != m.snapshot {
			t.remove(m, text)
		}
	}
}

// leave forgets the routes of a node that says goodbye. It returns false if the message is late.
func (t *table) leave(id string, s state) bool {
	m := t.members[id]
	if m == nil || s.Epoch != m.Epoch || m.left {
		return false
	}
	t.clear(m)
	m.gone, m.left = true, true
	return true
}

// expire forgets the routes of nodes that were silent for the time of a lease, and after some time the nodes. It
// returns those that have died now. isAlive knows of other signs of life, which count for the time of a lease, too.
func (t *table) expire(now time.Time, isAlive func(id string) bool) (died []string) {
	for id, m := range t.members {
		if isAlive(id) {
			m.seen = now
		}
		switch silent := now.Sub(m.heard); {
		case !m.gone && silent > Lease && now.Sub(m.seen) > Lease:
			t.clear(m)
			m.gone = true
			died = append(died, id)
		case m.gone && silent > forget:
			delete(t.members, id)
		}
	}
	return died
}

// areSilent reports whether there are several nodes, and nothing was heard of any of them for some time. Then it is
// more likely that nothing arrives than that all have died.
func (t *table) areSilent(now time.Time, since time.Duration) bool {
	alive := 0
	for _, m := range t.members {
		if m.gone {
			continue
		}
		if now.Sub(m.heard) <= since {
			return false
		}
		alive++
	}
	return alive > 1
}

// clear removes all that a node has told, except for its card.
func (t *table) clear(m *member) {
	for text := range m.routes {
		t.remove(m, text)
	}
	m.Version, m.next, m.needs = 0, 0, 0
	t.forgetNetworks(m)
}

// recall makes nodes count as behind for whose routes there was no room, and is now.
func (t *table) recall(now time.Time) {
	for _, m := range t.members {
		if m.needs > 0 && t.hasRoom(m, m.needs) && !m.isBehind() && now.Sub(m.recalled) >= recallAgain {
			m.Version--
			m.needs, m.recalled = 0, now
		}
	}
}

// hasRoom reports whether a node may have one more route of this size.
func (t *table) hasRoom(m *member, cost int) bool {
	return m.bytes+cost <= maxShare && t.bytes+cost <= maxTable
}

func (t *table) add(m *member, text string) {
	_, known := m.routes[text]
	cost := len(text) + routeCost
	if !known && !t.hasRoom(m, cost) {
		t.refused++
		if m.needs == 0 || cost < m.needs {
			m.needs = cost
		}
		return
	}
	m.routes[text] = m.snapshot
	if known {
		return
	}
	m.bytes += cost
	t.bytes += cost
	t.of[text] = append(t.of[text], m)
	t.tell(m, text, false)
}

func (t *table) remove(m *member, text string) {
	if _, known := m.routes[text]; !known {
		return
	}
	delete(m.routes, text)
	cost := len(text) + routeCost
	m.bytes -= cost
	t.bytes -= cost
	others := slices.DeleteFunc(t.of[text], func(o *member) bool { return o == m })
	if t.of[text] = others; len(others) == 0 {
		delete(t.of, text)
	}
	t.tell(m, text, true)
}

func (t *table) tell(m *member, text string, gone bool) {
	if t.watch == nil {
		return
	}
	ns, err := moqt.ParseNamespace(text)
	if err != nil {
		return // decoding has refused it
	}
	t.watch(Change{Node: m.id, Namespace: ns, Gone: gone})
}

// origins returns the nodes that have a publisher for a namespace: first those that announce the most of it.
func (t *table) origins(ns moqt.Namespace) (list []*member) {
	for text := ns.String(); ; {
		for _, m := range t.of[text] {
			if !slices.Contains(list, m) {
				list = append(list, m)
			}
		}
		if text == "" {
			return list
		}
		text = text[:max(0, strings.LastIndexByte(text, '-'))]
	}
}

// inRegion returns the nodes of a region that are not gone, in any order.
func (t *table) inRegion(region string) (list []*member) {
	for _, m := range t.members {
		if !m.gone && m.card.Region == region {
			list = append(list, m)
		}
	}
	return list
}

// alive returns the nodes that are not gone.
func (t *table) alive() (list []*member) {
	for _, m := range t.members {
		if !m.gone {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *member) int { return strings.Compare(a.id, b.id) })
	return list
}

// near takes a node's list of networks.
func (t *table) near(id string, n *networksMessage, now time.Time) {
	m := t.members[id]
	if m == nil || m.gone || n.Epoch != m.Epoch {
		return
	}
	t.forgetNetworks(m)
	if t.networks+len(n.Micros) > maxAllNetworks {
		t.refused++
		return
	}
	m.heard, m.near, m.nearAt = now, n.Micros, now
	t.networks += len(m.near)
}

func (t *table) forgetNetworks(m *member) {
	t.networks -= len(m.near)
	m.near = nil
}
